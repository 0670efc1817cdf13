# SPDX-License-Identifier: Apache-2.0
"""Request bodies that are wrong: generated from a seed, and a list of special ones."""
import copy
import json

MESSAGE = {"role": "user", "content": "Spell the word cat."}
VALID = {
    "/v1/chat/completions": {"model": "demo", "messages": [MESSAGE], "max_tokens": 4},
    "/v1/completions": {"model": "demo", "prompt": "Spell the word cat.", "max_tokens": 4},
    "/v1/responses": {"model": "demo", "input": "Spell the word cat.", "max_output_tokens": 4},
    "/v1/messages": {"model": "demo", "messages": [MESSAGE], "max_tokens": 4},
    "/tokenize": {"model": "demo", "prompt": "Spell the word cat."},
    "/detokenize": {"model": "demo", "tokens": [3, 4, 5]},
    "/v1/embeddings": {"input": "Spell the word cat."},  # of the server's embedding model, if it has one
    "/v1/rerank": {"query": "Spell?", "documents": ["cat", "dog"]},
    "/v1/score": {"text_1": "cat", "text_2": ["cat", "dog"]},
    "/v1/classify": {"input": "Spell the word cat."},
    # Ollama's, on a port of their own.
    "/api/chat": {"model": "demo", "messages": [MESSAGE], "options": {"num_predict": 4}},
    "/api/generate": {"model": "demo", "prompt": "Spell the word cat.", "options": {"num_predict": 4}},
    "/api/embed": {"input": "Spell the word cat."},
    "/api/show": {"model": "demo"},
}
GENERATING = ["/v1/chat/completions", "/v1/completions", "/v1/responses"]
# Fields that some endpoint knows, whatever it does with them.
FIELDS = """
add_generation_prompt add_special_tokens allowed_token_ids audio background bad_words best_of cache_salt chat_template
chat_template_kwargs context continue_final_message conversation dimensions documents echo encoding_format format frequency_penalty
function_call functions grammar guided_choice guided_json guided_regex ignore_eos images include include_stop_str_in_output
input instructions json_schema keep_alive mirostat num_ctx num_predict options query raw raw_scores return_documents text_1 text_2 top_n truncate use_activation length_penalty logit_bias logits_processors logprobs max_completion_tokens
max_output_tokens max_tokens max_tool_calls messages metadata min_p min_tokens modalities model n n_predict output_config
parallel_tool_calls presence_penalty previous_response_id prompt prompt_embeds prompt_logprobs reasoning reasoning_effort
repeat_last_n repeat_penalty repetition_penalty response_format return_token_ids return_token_strs seed skip_special_tokens stop stop_sequences
stop_token_ids store stream stream_options structured_outputs suffix system temperature template text think thinking tokens
tool_choice tools top_a top_k top_logprobs top_n_sigma top_p truncate_prompt_tokens truncation typical_p use_beam_search user
web_search_options xtc_probability""".split()
NUMBERS = [
    -1, 0, 1, 2, 5, 20, 21, 0.5, -0.0, 1.0, 2.0, 2.0001, 1e-45, 1e308, -1e308, 2**31 - 1, 2**31, 2**32, 2**53 + 1,
    2**63 - 1, 2**63, 2**64 - 1, 2**64, -2**63, -2**63 - 1, 10**30
]
STRINGS = [
    "", " ", "a", "\x00", "\n", "é", "🏳️‍🌈",
    "\u202e", "\ufffe", "\ufeff", "<|end|>", "<|assistant|>", "{{ 7*7 }}",
    "%s%n", "../../etc/passwd", "a" * 63, "a" * 64, "a" * 65, "a" * 128, "a" * 129, "a" * 256, "a" * 257, "a" * 513,
    "resp_0123456789abcdef", "none", "auto", "system", "tool", "1", "true", "null", "text", "disabled", "a" * 20_000
]
STRUCTURES = [
    None, True, False, [], {}, [[]], [None], [1], ["a"], ["a"] * 5, [""] * 4, [0] * 65, {"type": "text"},
    {"format": {"type": "text"}}, {"include_usage": True}, {"include_usage": 1}, {"a": "b"}, {"enable_thinking": False}, {"effort": "none"},
    {"num_predict": 1, "temperature": 0, "stop": ["a"], "seed": -1}, {"num_predict": 0}, {"repeat_last_n": 64},
    {str(i): "x"
     for i in range(17)}, {"k" * 65: "v"}, {"50256": 100}, [{"type": "text", "text": "a"}],
    [{"type": "input_text", "text": "a"}], [{"type": "image_url", "image_url": {"url": "x"}}], [MESSAGE], [MESSAGE] * 3,
    [{"role": "user"}], [{"content": "a"}], [{"role": "nobody", "content": "a"}], [MESSAGE, None],
    [{"role": "assistant", "content": None}], [{"role": "user", "content": [{"type": "text"}]}], [MESSAGE] * 1025,
    ["message.output_text.logprobs"], [3, 4, 5], [-1], [2**31], [1024], [[1, 2]], [[1], [2]], [1, "a"], [1.5]
]


def generated(rng):
    """A path and a body: a valid request with some fields replaced, left out, added or nested wrongly."""
    path = rng.choice(list(VALID))
    body = copy.deepcopy(VALID[path])
    for _ in range(rng.randint(1, 4)):
        field = rng.choice(FIELDS) if rng.random() < 0.7 else rng.choice(list(body) or FIELDS)
        if rng.random() < 0.1:
            body.pop(field, None)
        else:
            body[field] = value(rng)
    if rng.random() < 0.3:
        body["stream"] = True
    data = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return path, broken(data, rng) if rng.random() < 0.15 else data


def value(rng, depth=0):
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(NUMBERS)
    if kind < 0.6:
        return rng.choice(STRINGS)
    if kind < 0.9 or depth > 3:
        return copy.deepcopy(rng.choice(STRUCTURES))
    if kind < 0.95:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    return {rng.choice(FIELDS + ["role", "content", "type"]): value(rng, depth + 1) for _ in range(rng.randint(0, 5))}


def broken(data, rng):
    """No longer what a JSON writer makes: bytes left out, changed or put in."""
    at = rng.randrange(len(data))
    return rng.choice([
        lambda: data[:at], lambda: data[:at] + bytes([rng.randrange(256)]) + data[at + 1:], lambda: data[:at] + rng.
        choice([b"\x00", b"\xff", b"\\u", b"\\ud800", b",", b"}", b'"', b"//", b"1e999", b"\xed\xa0\x80"]) + data[at:],
        lambda: data + data,
    ])()


def with_text(text):
    """Each endpoint's body with this JSON text in place of the prompt's string."""
    for path, body in VALID.items():
        field = {"/v1/chat/completions": "content", "/v1/completions": "prompt", "/api/chat": "content",
                 "/api/generate": "prompt"}.get(path, "input")
        yield path, json.dumps(body).encode().replace(f'"{field}": "Spell the word cat."'.encode(),
                                                      f'"{field}": '.encode() + text)


def with_field(text):
    """Each endpoint's body with this JSON text as one more pair."""
    for path, body in VALID.items():
        yield path, json.dumps(body).encode()[:-1] + b"," + text + b"}"


def special():
    """Pairs of path and body."""
    huge = b"a" * 1_000_000
    texts = [
        b'"' + huge + b'"', b'"' + b"\\u0041" * 160_000 + b'"', b'"' + "🏳️‍🌈".encode() * 60_000 + b'"',
        b'"' + b"\\n" * 400_000 + b'"', b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83c\\udff3"', b'"\xff"',
        b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"a\nb"', b'"a\tb"', b'"\\x41"', b'"unterminated',
        b"'single'", b'"\xef\xbb\xbf"', b'"\xe2\x80\xae"', b"[" * 100_000 + b"]" * 100_000, b"[" * 31 + b"]" * 31,
        b"[" * 100_000, b'{"a":' * 30_000 + b"1" + b"}" * 30_000, b"[" + b"1," * 400_000 + b"1]",
        b"[" + b'"",' * 120_000 + b'""]', b"[" + b"{}," * 120_000 + b"{}]", b"-" * 1000, b"1" * 100_000,
        b"0." + b"0" * 100_000 + b"1", b"1e999", b"-1e999", b"NaN", b"Infinity", b"01", b"+1", b".5", b"1.", b"0x10",
        b"tru", b""
    ]
    pairs = [
        b'"k":1,' * 60_000 + b'"z":0', b",".join(b'"k%d":0' % i for i in range(60_000)), b'"temperature":1e999',
        b'"temperature":-0.0', b'"temperature":NaN', b'"max_tokens":1,"max_tokens":"x"', b'"messages":[],"messages":[]',
        b'"stream":true,"stream":false', b'"\\u0000":1', b'"stop":["' + b'","'.join([b"a" * 256] * 4) + b'"]',
        b'"seed":' + b"9" * 400, b'"logit_bias":{' + b",".join(b'"%d":1' % i for i in range(20_000)) + b"}",
        b'"metadata":{' + b",".join(b'"%d":"x"' % i for i in range(20_000)) + b"}", b'"user":"' + b"u" * 900_000 + b'"',
        b'/*c*/"x":1', b""
    ]
    documents = [
        b"", b" ", b"{}", b"[]", b"null", b"0", b'""', b"{", b"}", b"\x00", b"\xef\xbb\xbf{}", b"{}{}", b"{}x",
        b"\xff\xfe{\x00}\x00", b"{'a':1}", b"[" * 500_000, b" " * 1_000_000, b"{" * 1000, b'{"a"}', b'{"a":}', b'{,}',
        b"\x1f\x8b\x08\x00", b"--x\r\nContent-Disposition: form-data\r\n\r\n", b"a=b&c=d"
    ]
    yield from (pair for text in texts for pair in with_text(text))
    yield from (pair for text in pairs for pair in with_field(text))
    yield from ((path, document) for document in documents for path in VALID)


def stored_paths(ids, rng, number):
    """Methods and paths under /v1/responses/{id}: known ids, near misses, queries."""
    odd = [
        "resp_", "..", "%00", "%2e%2e", "x" * 128, "x" * 129, "x" * 2000, "resp_" + "0" * 32, "resp_" + "g" * 32,
        "é".encode().decode("latin-1"), "*", "'--", ";"
    ]
    queries = [
        "", "?limit=1", "?limit=0", "?limit=101", "?limit=-1", "?limit=99999999999999999999", "?limit=x", "?limit=",
        "?order=asc", "?order=x", "?after=x", "?after=" + "y" * 2000, "?include[]=x", "?&&&", "?limit=1&limit=2", "?=",
        "?stream=true"
    ]
    for _ in range(number):
        name = rng.choice(ids) if rng.random() < 0.4 else rng.choice(odd)
        if rng.random() < 0.2:
            at = rng.randrange(len(name))
            name = name[:at] + rng.choice("aZ0_-/.%") + name[at + 1:]
        suffix = rng.choice(["", "", "/input_items", "/input_items", "/", "/cancel", "/input_items/"])
        method = rng.choices(["GET", "HEAD", "DELETE", "POST", "PUT", "OPTIONS"], [8, 1, 1, 1, 1, 1])[0]
        yield method, f"/v1/responses/{name}{suffix}{rng.choice(queries)}"
