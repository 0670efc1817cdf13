# SPDX-License-Identifier: Apache-2.0
"""Open WebUI's administrator, before people come: accounts, and models that have a few of the built-in tools."""
import json
import urllib.request

TOOLS = ("automations", "calendar", "channels", "chats", "code_interpreter", "files", "image_generation", "knowledge",
         "memory", "notes", "notifications", "skills", "subagents", "tasks", "time", "user_input", "web_search")


class Administration:
    def __init__(self, url):
        self.url, self.token = url, ""
        self.token = self.ask("auths/signup", self.person("Grace"))["token"]  # the first to come administers

    def person(self, name):
        return {"name": name, "email": f"{name.lower()}@example.org", "password": f"password of {name}"}

    def ask(self, path, body):
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def add_person(self, name):
        """The token that signs this person in."""
        return self.ask("auths/add", {**self.person(name), "role": "user"})["token"]

    def add_model(self, name, base, tools=(), **fields):
        """`base` at temperature 0, with these kinds of built-in tools and fields of its requests."""
        self.ask("models/create", {
            "id": name, "name": name, "base_model_id": base, "params": {"temperature": 0, "custom_params": fields},
            "meta": {"builtinTools": {kind: kind in tools for kind in TOOLS}},
        })
