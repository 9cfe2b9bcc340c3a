#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A notify-command of mpsd: notify.sh slack|ntfy|mail|desktop. Exit status 75
# makes mpsd retry.
set -euo pipefail


slack_url=https://hooks.slack.com/services/T000/B000/XXXX
ntfy_url=https://ntfy.example.org/my-topic
mail_to=you@example.org

case "${1:-}" in
  slack)  # jq extracts `text` from mpsd's JSON
    jq '{text}' | curl -fsS --max-time 20 -H 'Content-Type: application/json' \
      --data-binary @- "$slack_url" || exit 75 ;;
  ntfy)
    curl -fsS --max-time 20 -H "Title: $MPSD_TITLE" --data-raw "$MPSD_TEXT" \
      "$ntfy_url" || exit 75 ;;
  mail)
    printf '%s\n' "$MPSD_TEXT" | mail -s "$MPSD_TITLE" "$mail_to" || exit 75 ;;
  desktop)  # the texts are arguments of the script, never a part of it
    osascript -e 'on run argv' \
      -e 'display notification (item 2 of argv) with title (item 1 of argv)' \
      -e 'end run' "$MPSD_TITLE" "$MPSD_TEXT" ;;
  *) echo "notify.sh: slack, ntfy, mail or desktop?"; exit 64 ;;
esac
