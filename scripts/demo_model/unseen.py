# SPDX-License-Identifier: Apache-2.0
"""Questions about words, names and cities that no list of the training has and that training never draws (made_up.py),
and statements in wordings that it does not have. Half of the words are real ones, half are made up. Memory is asked seven
turns after the telling."""

import random

import generator
import stories
from facts import FACTS
from made_up import made_up_word
from words import UNSEEN_CITIES, UNSEEN_NAMES, UNSEEN_WORDS

# kind: statements and questions in other words than those of facts.py.
FREE_WORDINGS = {
    "name": (["Folks call me {v}.", "I go by {v}.", "Everybody calls me {v}.", "Good morning, I'm {v}.",
    "{v}, that is me.",
              "Let me introduce myself: {v}."],
             ["What do people call me?", "Which name do I have?", "How am I called?"]),
    "word": (["Please keep in mind the word {v}.", "I want you to remember the word {v}.",
    "Here comes the secret word: {v}."],
             ["What word should you remember?", "Can you tell me the word?", "Which word did I tell you?"]),
    "city": (["I have lived in {v} for years.", "My family lives in {v}.", "These days I live in {v}."],
             ["What city is my home?", "Which city am I from?", "What is my home town?"]),
    "dog": (["My old dog is called {v}.", "We have a dog, it is called {v}.", "I got a dog and called it {v}."],
            ["What name does my dog have?", "What did I call my dog?", "My dog is called what?"]),
    "sister": (["I have one sister, {v}.", "My little sister is called {v}.", "My sister goes by {v}."],
               ["What name does my sister have?", "How do we call my sister?", "My sister is called what?"]),
}


def word(rng):
    return rng.choice(UNSEEN_WORDS) if rng.random() < 0.5 else made_up_word(rng, unseen=True)


def name(rng):
    return rng.choice(UNSEEN_NAMES) if rng.random() < 0.5 else made_up_word(rng, unseen=True).capitalize()


def city(rng):
    return rng.choice(UNSEEN_CITIES) if rng.random() < 0.5 else made_up_word(rng, unseen=True).capitalize()


def sort(rng, draw, noun):
    """Two to five of them with different initials."""
    items, count = {}, rng.randint(2, 5)
    while len(items) < count:
        item = draw(rng)
        items.setdefault(item[0], item)
    listed = ", ".join(items.values())
    return [rng.choice([f"Sort these {noun}: {listed}", f"Sort the {noun} {listed}.",
            f"Sort alphabetically: {listed}"]),
            "Sorted: " + ", ".join(sorted(items.values()))]


def repeat(rng):
    words, times = " ".join(word(rng) for _ in range(rng.randint(1, 3))), rng.randint(2, 6)
    return [rng.choice([f'Repeat "{words}" {times} times.', f"Say {times} times: {words}"]),
            "\n".join(f"{i}. {words}" for i in range(1, times + 1))]


def spell(rng):
    drawn = word(rng)
    return [rng.choice([f"Spell {drawn}.", f"Spell the word {drawn}.", f"How do you spell {drawn}?"]), "-".join(drawn)]


def reverse(rng):
    drawn = word(rng)
    return [rng.choice([f"Reverse {drawn}.", f"Reverse the word {drawn}.", f"Spell {drawn} backwards."]),
            "-".join(drawn) + ", reversed: " + "-".join(reversed(drawn))]


def story(rng):
    """Hero's name, animal, place and treasure are all unseen ones."""
    slots = []
    while len(slots) < 3:
        drawn = word(rng)
        if drawn[0] not in "aeiou":
            slots.append(drawn)
    hero, parts = name(rng), rng.randint(1, 6)
    animal, place, thing = slots
    length = f"story in {parts} part{'s' if parts > 1 else ''}"
    return [f"Tell me a {length} about {hero} the {animal}, the {place} and the golden {thing}.",
            stories.write_story(hero, animal, place, thing, parts)]


def draw_value(rng, kind):
    return {"word": word, "city": city, "food": word, "color": word}.get(kind, name)(rng)


def memory(rng):
    """A fact in a wording of facts.py, six other turns, the question."""
    kind = rng.choice(["name", "word", "food", "color", "city", "pet", "dog", "sister"])
    value, fact = draw_value(rng, kind), FACTS[kind]
    turns = [rng.choice(fact.statements).format(v=value), fact.acknowledgement.format(v=value)]
    for _ in range(6):
        other = generator.TASKS[rng.choice(["counting", "addition", "sorting", "spelling", "series"])](rng)
        turns += [other.user, other.answer]
    return turns + [rng.choice(fact.questions), fact.recalled.format(v=value)]


def free_wording(rng):
    """A fact told and asked for at once in wordings that training does not have; only the last answer counts."""
    kind = rng.choice(list(FREE_WORDINGS))
    statements, questions = FREE_WORDINGS[kind]
    assert not set(statements) & set(FACTS[kind].statements) and not set(questions) & set(FACTS[kind].questions)
    value, fact = draw_value(rng, kind), FACTS[kind]
    return [rng.choice(statements).format(v=value), fact.acknowledgement.format(v=value), rng.choice(questions),
            fact.recalled.format(v=value)]


def free_statement(rng):
    turns = free_wording(rng)
    return turns[:2]


CATEGORIES = {
    "sort words": lambda rng: sort(rng, word, "words"), "sort names": lambda rng: sort(rng, name, "names"),
    "repeat": repeat,
    "spell": spell, "reverse": reverse, "story": story, "memory": memory, "free statement": free_statement,
    "free question": free_wording}


def questions(seed, per_category):
    """As generator.held_out_questions: the same for the same seed."""
    asked = []
    for category, write in CATEGORIES.items():
        rng = random.Random(f"unseen {seed} {category}")
        for _ in range(per_category):
            turns = write(rng)
            messages = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(turns)]
            asked.append({"category": category, "messages": messages[:-1], "expected": turns[-1]})
    return asked
