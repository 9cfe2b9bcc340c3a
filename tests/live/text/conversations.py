# SPDX-License-Identifier: Apache-2.0
"""Conversations that take chat templates through their branches."""

import json

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather",
        "description": "Weather of a city <now> & \"later\"; it's é.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "days": {"type": "integer", "default": 3},
                "items": {"type": "array", "items": {"type": "number"}},
                "deep": {"type": "object", "properties": {
                    "flag": {"type": "boolean"}}, "required": ["flag"]},
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "required": ["city"]},
        "return": {"type": "string"}}},
    {"type": "function", "function": {
        "name": "now", "description": "The time.",
        "parameters": {"type": "object", "properties": {}}}},
]


def user(content):
    return {"role": "user", "content": content}


def bot(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, identity="123456789"):
    return {"id": identity, "type": "function",
            "function": {"name": name, "arguments": arguments}}


def result(content, **more):
    return {"role": "tool", "content": content, **more}


ARGUMENTS = {"city": "Zürich \"old\" <town>", "days": 2, "items": [1.5, 2e22, 1e-7],
             "deep": {"flag": True, "none": None}, "empty": {}, "list": []}
BLOCKS = [{"type": "text", "text": "look at "}, {"type": "image"},
          {"type": "text", "text": " this"}]

CONVERSATIONS = [
    [user("Hi")],
    [user("Hi"), bot("Hello!")],
    [system("Be brief."), user("Hi"), bot("Hello!"), user("Bye"), bot("Bye.")],
    [system(""), user(""), bot("")],
    [user("  spaces  \n"), bot("\n\n  answer \t\r\n"), user("\u00a0x\u3000\x1c")],
    [user("línea\u2028é 😀"), bot("日本語 👩‍👩‍👧"), user("<b>&'\"</b> \\n {{ x }}")],
    [system("s"), system("t"), user("u"), bot("v")],
    [bot("I begin"), user("ok"), bot("end")],
    [user("a"), user("b"), bot("c")],
    [user("a"), bot("b"), bot("c")],
    [system("only system")],
    [{"role": "developer", "content": "dev"}, user("x"), bot("y")],
    [{"role": "weird", "content": "?"}, user("x")],
    [user("q"), bot("<think>\nhm é\n</think>\n\nanswer"), user("more"),
     bot("<think>again</think>done")],
    [user("q"), bot("answer", reasoning_content="because\n"), user("r"),
     bot("s", reasoning_content="\n why ")],
    [user("q"), bot("answer", thinking="deep"), user("r"), bot("s", reasoning="x")],
    [user("w?"), bot("", tool_calls=[call("get_weather", ARGUMENTS)]),
     result("{\"t\": 21.5}", name="get_weather", tool_call_id="123456789"),
     bot("It is 21.5.")],
    [user("w?"), bot(None, tool_calls=[call("get_weather", ARGUMENTS)]),
     result("21"), bot("ok")],
    [user("w?"), {"role": "assistant", "tool_calls": [
        call("get_weather", {"city": "A"}, "aaaaaaaaa"),
        call("now", {}, "bbbbbbbbb")]},
     result("1", name="get_weather", tool_call_id="aaaaaaaaa"),
     result("2", name="now", tool_call_id="bbbbbbbbb"), bot("both"), user("t")],
    [user("w?"), bot("Let me see", tool_calls=[
        call("now", json.dumps({"a": [1, "é"]}))]),
     result({"x": [1, None, True]}), bot("fine", reasoning_content="r")],
    [user("w?"), bot("x", tool_calls=[{"name": "now", "arguments": {"k": "v"}}]),
     {"role": "ipython", "content": "out"}, bot("y")],
    [user(BLOCKS), bot("seen")],
    [user(BLOCKS), bot([{"type": "text", "text": "blocks"}]), user("x")],
    [system([{"type": "text", "text": "sys"}]), user(BLOCKS)],
    [user([{"type": "image", "url": "u"}, {"type": "video"}, {"type": "audio"}])],
    [{"role": "user"}, bot("no content before")],
    [{"content": "no role"}],
    [{"role": "user", "content": "named", "name": "Bob", "weight": 0.5}, bot("x")],
    [user(7), bot(1.0)],
    [user("x" * 3000), bot("y\n" * 500)],
]

KWARGS = [{}, {"enable_thinking": False}, {"enable_thinking": True},
          {"add_vision_id": True, "reasoning_effort": "high",
           "model_identity": "I am é", "builtin_tools": ["python", "browser"],
           "preserve_thinking": True, "date_string": "1 Jan 2030",
           "tools_in_user_message": False, "documents": [
               {"title": "T", "text": "D"}]}]
