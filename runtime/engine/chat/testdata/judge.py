"""Renders templates x conversations with Jinja2 itself and writes the goldens.

The environment is the one of Hugging Face transformers'
chat_template_utils.py: ImmutableSandboxedEnvironment, trim_blocks,
lstrip_blocks, loop controls, the generation tag, tojson, raise_exception and
strftime_now (here with a fixed clock).

    pip install jinja2==3.1.6
    python judge.py templates conversations.json golden
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

CLOCK = datetime.datetime(2026, 3, 7, 9, 5, 4)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

    def body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = CLOCK.strftime
    return env


def reasoning_key(source):
    for key in ("reasoning_content", "thinking", "reasoning"):
        if any(use in source for use in ("." + key, f"'{key}'", f'"{key}"')):
            return key
    return "reasoning_content"


def message(m, key):
    out = {"role": m["role"], "content": None if m.get("no_content") else m.get("content", "")}
    if m.get("reasoning"):
        out[key] = m["reasoning"]
    if m.get("tool_calls"):
        out["tool_calls"] = [call(c) for c in m["tool_calls"]]
    for name in ("tool_call_id", "name"):
        if m.get(name):
            out[name] = m[name]
    return out


def call(c):
    out = {"id": c["id"]} if c.get("id") else {}
    out.update(type="function", function={"name": c["name"], "arguments": c["arguments"]})
    return out


def variables(c, source):
    v = {
        "messages": [message(m, reasoning_key(source)) for m in c["messages"]],
        "tools": c.get("tools") or None, "documents": None,
        "add_generation_prompt": c.get("add_generation_prompt", False),
        "bos_token": "<s>", "eos_token": "</s>",
    }
    if "thinking" in c:
        v["enable_thinking"] = v["thinking"] = c["thinking"]
    v.update(c.get("extra", {}))
    return v


def judge(source, c):
    try:
        return {"text": environment().from_string(source).render(**variables(c, source))}
    except jinja2.exceptions.TemplateError as e:
        if type(e) is jinja2.exceptions.TemplateError:
            return {"raised": e.message}
        return {"error": f"{type(e).__name__}: {e}"}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def main(templates, conversations, out):
    cases = json.loads(pathlib.Path(conversations).read_text())
    for path in sorted(pathlib.Path(templates).glob("*.jinja")):
        source = path.read_text()
        golden = {c["id"]: judge(source, c) for c in cases}
        text = json.dumps(golden, ensure_ascii=False, indent=1)
        (pathlib.Path(out) / (path.stem + ".golden")).write_text(text + "\n")


main(*sys.argv[1:])
