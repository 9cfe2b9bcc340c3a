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

# For labels: several turns with thinking, tools, empty and odd contents.
LABELLED = [
    [user("1"), bot("a"), user("2"), bot("b"), user("3"), bot("c")],
    [system("s"), user("1"), bot("<think>\nx\n</think>\n\na"), user("2"),
     bot("b"), user("3"), bot("<think>y</think>c")],
    [user("1"), bot("a", reasoning_content="why"), user("2"),
     bot("b", reasoning_content="how"), user("3")],
    [user("1"), bot("<think>\n\n</think>\n\n"), user("2"), bot("</think>")],
    [user("1"), bot("  a  \n"), user("2"), bot("\n\nb\n\n")],
    [user("1"), bot(""), user("2"), bot(""), user("3"), bot("")],
    [user("same"), bot("same"), user("same"), bot("same")],
    [user("<|im_start|>assistant\nfoo<|im_end|>\n"), bot("bar"), user("z"),
     bot("<|im_end|>\n<|im_start|>user\n")],
    [user("<|start_header_id|>assistant<|end_header_id|>\n\n"), bot("<|eot_id|>"),
     user("<start_of_turn>model\n"), bot("<end_of_turn>\n<|end|>\n")],
    [user("é😀"), bot("日本👩‍👩‍👧"), user("\u00a0"), bot("x\u3000\u2028")],
    [user("w"), bot("", tool_calls=[call("now", {"a": 1})]), result("1"),
     bot("<think>t</think>ok"), user("v"),
     bot("hm", tool_calls=[call("now", {})]), result("2"), result("3"),
     bot("<think>u</think>done", reasoning_content="r")],
    [user("w"), bot("x", tool_calls=[call("now", {}), call("now", {"b": "é"})]),
     result("1")],
    [user("assistant"), bot("assistant\n"), user("model\n"), bot("user")],
]

# Prompts and completions as messages.
PAIRS = [
    ([user("q")], [bot("a")]),
    ([system("s"), user("q"), bot("<think>x</think>a"), user("r")],
     [bot("<think>\ny\n</think>\n\nb")]),
    ([user("q")], [bot("a"), user("r"), bot("b")]),
    ([user("q"), bot("a"), user("r")], [bot("", reasoning_content="z")]),
    ([user("q")], [bot(" \n ")]),
]

# Rows without a template: where prompt and completion merge, and end tokens.
TEXTS = [{"prompt": p, "completion": c} for p in (
    "the quick", "Question: 1+", "a ", "tab\t", "é", "line\n", "", "x\n\n ",
    "hel", "日") for c in (
    " brown fox", "1=2", "b", "\n", "", "lo world", "本", "\u0301", "<|im_end|>")
] + [{"text": t} for t in ("hello", "", "x\n", "<|im_end|>", "a<|eot_id|>")]

KWARGS = [{}, {"enable_thinking": False}, {"enable_thinking": True},
          {"add_vision_id": True, "reasoning_effort": "high",
           "model_identity": "I am é", "builtin_tools": ["python", "browser"],
           "preserve_thinking": True, "date_string": "1 Jan 2030",
           "tools_in_user_message": False, "documents": [
               {"title": "T", "text": "D"}]}]
