// SPDX-License-Identifier: Apache-2.0
// Opens a daemon's web page in headless Chromium: no complaint, no request to
// any other client, the job with its hostile name as text, its report.
//
// usage: web_browser.mjs NPM_FOLDER URL JOB NAME
// MPSD_SCREENSHOTS=DIR leaves pictures there, to look at. Exit status 77: there
// is no browser.

import assert from "node:assert/strict";
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";

const BROWSERS = [process.env.CHROMIUM, "/usr/bin/chromium",
  "/usr/bin/chromium-browser", "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];
const [npmFolder, url, job, name] = process.argv.slice(2);
const browserPath = BROWSERS.find((file) => file && fs.existsSync(file));
if (!browserPath) {
  console.log("SKIPPED: neither Chromium nor Chrome is there: run " +
    "deploy/setup.sh --tests, or name one in CHROMIUM");
  process.exit(77);
}
const puppeteer = createRequire(path.join(npmFolder, "package.json"))(
  "puppeteer-core");
const browser = await puppeteer.launch({executablePath: browserPath,
  args: ["--no-sandbox"]});
try {
  const page = await browser.newPage();
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith("data:") && !asked.startsWith(`${url}/`)) {
      complaints.push(`asks for ${asked}`);
    }
  });
  const shot = async (file) => {
    const folder = process.env.MPSD_SCREENSHOTS;
    if (folder) await page.screenshot({path: path.join(folder, file)});
  };

  await page.goto(`${url}/`);
  await page.waitForSelector("#jobs tr");
  await shot("queue.png");
  const cells = await page.$$eval("#jobs td", (all) =>
    all.map((cell) => cell.textContent));
  assert.equal(cells[0], name);
  assert.equal(cells[1], "SUCCEEDED");
  const facts = await page.$eval("#facts", (list) => list.textContent);
  assert.match(facts, /0 running, 0 queued/);

  await Promise.all([page.waitForNavigation(), page.click("#jobs a")]);
  assert.equal(page.url(), `${url}/jobs/${job}`);
  await page.waitForFunction(
    () => document.querySelector("main").children.length > 0);
  await shot("report.png");
  assert.ok((await page.$eval("main", (main) => main.textContent)).length > 100);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
}
