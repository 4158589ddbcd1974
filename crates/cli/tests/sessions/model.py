# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A model for coding agents, on loopback, which follows a script in place of thinking.

It speaks the HTTP interfaces of Anthropic (`/v1/messages`), OpenAI (`/chat/completions`, `/responses`) and Google
(`:generateContent`, `:streamGenerateContent`), with and without streaming. Each answer to a request that offers a shell is
the call of a tool for one step of the script; the result is in the agent's next request. Requests that offer no shell (a
title, a count of tokens, a greeting) get a harmless answer.

A client that offers no tools and asks for the model `edits` gets all steps in one text, as edits of files: its own steps, and a
script of the commands. It runs the script as its tests, and sends what was printed.

Started with a script (JSON), a file for the record and a path for a unix socket. It prints its port, and goes on until its
standard input is closed. The record has a line of JSON for each step, {"step": NAME, "tool": NAME, "result": TEXT}, and a
line {"end": COUNT} when the last result is there. The socket answers each connection with "hello".
"""

import json
import os
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCRIPT, RECORD, SOCKET = sys.argv[1:4]
with open(SCRIPT, encoding="utf-8") as file:
    STEPS = json.loads(file.read().replace("@PID@", str(os.getpid())))
LOCK = threading.Lock()
DONE = "All steps are done."
# The names of tools, and of their parameters, as the agents call them.
TOOLS = {
    "shell": ["bash", "run_shell_command", "exec_command", "shell_command", "shell"],
    "read": ["read", "read_file"],
    "edit": ["edit", "replace", "edit_file"],
}
PARAMETERS = {
    "command": ["command", "cmd"],
    "path": ["file_path", "filePath", "absolute_path", "path"],
    "old": ["old_string", "oldString"],
    "new": ["new_string", "newString"],
}
# How long codex waits for a command before it asks the model what to do, in milliseconds.
WAITS = {"yield_time_ms": 60000}
recorded = set()


def record(**line):
    with LOCK, open(RECORD, "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


class Tool:
    """A tool that the agent offers: its name, the schema of its parameters, and whether it takes plain text."""

    def __init__(self, name, schema, plain=False):
        self.name, self.schema, self.plain = name, schema or {}, plain

    def arguments(self, step):
        properties = self.schema.get("properties", {})
        filled = {}
        for what, names in PARAMETERS.items():
            for name in [name for name in names if name in properties and what in step][:1]:
                value = step[what]
                filled[name] = ["bash", "-c", value] if properties[name].get("type") == "array" else value
        for name, value in WAITS.items():
            if name in properties:
                filled[name] = value
        for name in self.schema.get("required", []):
            kind = properties.get(name, {}).get("type")
            filled.setdefault(name, {"boolean": False, "number": 0, "integer": 0}.get(kind, step["step"]))
        return filled


def chosen(tools, step):
    """The tool for a step. Where the agent has none to read or edit files, the shell does it."""
    named = {tool.name.lower(): tool for tool in tools}
    for kind in dict.fromkeys([step["tool"], "shell"]):
        for name in TOOLS[kind]:
            if name in named:
                return named[name]
    return None


def text_of(value):
    """The text of a tool's result, however it is wrapped."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text_of(part) for part in value)
    if isinstance(value, dict):
        return "\n".join(text_of(part) for part in value.values() if isinstance(part, (str, list, dict)))
    return ""


class Dialogue:
    """What a request has: the offered tools, and the results of calls so far, in order."""

    def __init__(self, tools, results):
        self.tools, self.results = tools, results

    def next(self):
        """The next call of a tool, as number, tool and arguments; or None."""
        for number, result in enumerate(self.results[: len(STEPS)]):
            with LOCK:
                new = number not in recorded
                recorded.add(number)
            if new:
                step = STEPS[number]
                record(step=step["step"], tool=chosen(self.tools, step).name, result=text_of(result))
                if number + 1 == len(STEPS):
                    record(end=len(STEPS))
        number = len(self.results)
        if number >= len(STEPS):
            return None
        step = STEPS[number]
        tool = chosen(self.tools, step)
        return number, tool, tool.arguments(step)


class Edits:
    """The whole script as edits of files, for an agent whose model has no tools (aider)."""

    FILE = "steps.sh"
    begin = None

    @staticmethod
    def fits(body):
        return body.get("model") == "edits"

    @staticmethod
    def block(path, old, new):
        return f"{path}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"

    @classmethod
    def answer(cls, body):
        """What it says: the edits, or that all is done when the results are there."""
        said = "\n".join(text_of(message.get("content")) for message in body.get("messages", []))
        found = {int(number): text for number, text in re.findall(r"\[begin (\d+)\]\n(.*?)\[end \1\]", said, re.S)}
        commands = [number for number, step in enumerate(STEPS) if "path" not in step]
        cls.begin = cls.begin or said
        if any(number not in found for number in commands):
            return cls.edits(commands)
        with LOCK:
            new = not recorded
            recorded.update(range(len(STEPS)))
        for number, step in enumerate(STEPS if new else []):
            # The agent has sent the files that are worked on in its first request.
            result = found[number] if number in found else cls.begin if step["tool"] == "read" else ""
            record(step=step["step"], tool=cls.__name__, result=result)
        if new:
            record(end=len(STEPS))
        return DONE

    @classmethod
    def edits(cls, commands):
        blocks = []
        for step in STEPS:
            if step["tool"] == "edit":
                path = os.path.relpath(step["path"], os.path.dirname(SOCKET))
                blocks.append(cls.block(path, step["old"] + "\n", step["new"] + "\n"))
        lines = []
        for number in commands:
            # The text of the script has no such line as it prints.
            lines += [f"printf '[%s {number}]\\n' begin", f"( {STEPS[number]['command']} ) 2>&1"]
            lines += [f"printf '[%s {number}]\\n' end"]
        # What tests print is sent to the model if they fail.
        lines.append("exit 1")
        blocks.append(cls.block(cls.FILE, "", "".join(f"{line}\n" for line in lines)))
        return "I make these edits.\n\n" + "\n".join(blocks)


class Anthropic:
    @staticmethod
    def read(body):
        tools = [Tool(tool["name"], tool.get("input_schema")) for tool in body.get("tools", [])]
        blocks = [
            block
            for message in body.get("messages", [])
            if isinstance(message.get("content"), list)
            for block in message["content"]
        ]
        return Dialogue(tools, [block.get("content") for block in blocks if block.get("type") == "tool_result"])

    @staticmethod
    def write(call, said, _body):
        if call:
            number, tool, arguments = call
            block = {"type": "tool_use", "id": f"toolu_{number:024}", "name": tool.name, "input": arguments}
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        else:
            block = {"type": "text", "text": said}
            begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
        reason = "tool_use" if call else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 10}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": begun},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        return {**message, "content": [block], "stop_reason": reason}, events


class Chat:
    @staticmethod
    def read(body):
        tools = [
            Tool(tool["function"]["name"], tool["function"].get("parameters"))
            for tool in body.get("tools") or []
            if "function" in tool
        ]
        results = [m.get("content") for m in body.get("messages", []) if m.get("role") == "tool"]
        return Dialogue(tools, results)

    @staticmethod
    def write(call, said, body):
        message = {"role": "assistant", "content": None if call else said}
        if call:
            number, tool, arguments = call
            function = {"name": tool.name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        reason = "tool_calls" if call else "stop"
        common = {"id": "chatcmpl-1", "created": 1, "model": body.get("model", "stub")}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        whole = {
            **common, "object": "chat.completion", "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        }
        chunk = {**common, "object": "chat.completion.chunk"}
        events = [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        return whole, [*events, "[DONE]"]


class Responses:
    @staticmethod
    def read(body):
        tools = [
            Tool(tool["name"], tool.get("parameters"), tool.get("type") == "custom")
            for tool in body.get("tools") or []
            if "name" in tool
        ]
        kinds = ("function_call_output", "custom_tool_call_output")
        items = body.get("input") if isinstance(body.get("input"), list) else []
        return Dialogue(tools, [item.get("output") for item in items if item.get("type") in kinds])

    @staticmethod
    def write(call, said, body):
        if call:
            number, tool, arguments = call
            item = {
                "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed",
                "name": tool.name, "arguments": json.dumps(arguments),
            }
        else:
            content = [{"type": "output_text", "text": said, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        usage = {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20,
        }
        response = {"id": "resp_1", "object": "response", "model": body.get("model", "stub"), "status": "completed"}
        whole = {**response, "output": [item], "usage": usage}
        events = [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return whole, events


class Gemini:
    @staticmethod
    def read(body):
        tools = [
            Tool(function["name"], function.get("parametersJsonSchema") or function.get("parameters"))
            for group in body.get("tools") or []
            for function in group.get("functionDeclarations") or []
        ]
        parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        return Dialogue(tools, [answer.get("response") for answer in answers])

    @staticmethod
    def write(call, said, _body):
        part = {"functionCall": {"name": call[1].name, "args": call[2]}} if call else {"text": said}
        whole = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
        }
        return whole, [whole]


INTERFACES = [
    (r"/messages$", Anthropic, "named"),
    (r"/chat/completions$", Chat, "data"),
    (r"/responses$", Responses, "named"),
    (r":(streamG|g)enerateContent$", Gemini, "data"),
]


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def whole(self, answer, status=200):
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events, style):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            if style == "named":
                self.wfile.write(f"event: {event['type']}\n".encode())
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"data: {data}\n\n".encode())
        self.close_connection = True

    def do_GET(self):
        self.whole({"object": "list", "data": [], "models": []})

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.split("?")[0]
        if os.environ.get("MODEL_LOG"):
            with open(os.environ["MODEL_LOG"], "ab") as log:
                log.write(f"{self.path}\n".encode() + data + b"\n")
        if path.endswith(("/count_tokens", ":countTokens")):
            return self.whole({"input_tokens": 10, "totalTokens": 10})
        for pattern, interface, style in INTERFACES:
            if re.search(pattern, path):
                body = json.loads(data)
                if Edits.fits(body):
                    whole, events = interface.write(None, Edits.answer(body), body)
                    return self.stream(events, style) if body.get("stream") else self.whole(whole)
                dialogue = interface.read(body)
                side = chosen(dialogue.tools, {"tool": "shell"}) is None
                call = None if side else dialogue.next()
                if side:
                    record(side=path, tools=[tool.name for tool in dialogue.tools])
                whole, events = interface.write(call, "{}" if side else DONE, body)
                if body.get("stream") or "streamGenerateContent" in path:
                    return self.stream(events, style)
                return self.whole(whole)
        return self.whole({}, 200 if "event" in path or "telemetry" in path else 404)


def greet():
    server = socket.socket(socket.AF_UNIX)
    server.bind(SOCKET)
    server.listen()
    while True:
        client, _address = server.accept()
        client.sendall(b"hello\n")
        client.close()


def main():
    threading.Thread(target=greet, daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
