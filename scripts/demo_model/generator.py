# SPDX-License-Identifier: Apache-2.0
"""Writes the dialogues that the demo model is trained on and tested with.

Every answer follows from its prompt by a rule in this file, so it can be checked exactly. A turn carries a key made
of its parameters (not of its wording); a hash of the key decides whether the turn is held out. Held-out turns are
never in training data, under no wording.

    generator.py show --seed 1 --count 5             print a few training dialogues
    generator.py export --output questions.json      write held-out questions with expected answers
"""

import argparse
import json
import random
import sys
import zlib
from dataclasses import dataclass, field

import stories
from words import (ADJECTIVES, ANIMALS, AVOIDED, CITIES, CODAS, COLORS, COMMON_WORDS, FOODS, LETTERS, MONTHS, NAMES,
                   ONSETS, THINGS, UNKNOWN_QUESTIONS, UNKNOWN_TOPICS, VOWELS, WEEKDAYS)

MAX_NUMBER = 120
IMPERATIVES = set("Count List Spell Reverse Write Repeat Say Sort Put Name Add Subtract Calculate Tell Explain Give Help "
                  "Introduce".split())
HELD_OUT_ONE_IN = 16


@dataclass
class Turn:
    user: str
    answer: str
    category: str
    key: str | None = None  # None: fixed text, cannot be held out


@dataclass
class Dialogue:
    turns: list
    system: str | None = None
    facts: dict = field(default_factory=dict)  # what the user told so far, by kind
    fact_turns: dict = field(default_factory=dict)  # number of the turn that told it

    def messages(self):
        messages = [{"role": "system", "content": self.system}] if self.system is not None else []
        for turn in self.turns:
            messages.append({"role": "user", "content": turn.user})
            messages.append({"role": "assistant", "content": turn.answer})
        return messages


def is_held_out(key):
    return key is not None and zlib.crc32(key.encode()) % HELD_OUT_ONE_IN == 0


# ---------------------------------------------------------------- wording

def vary(rng, text):
    """The same prompt as different people type it."""
    if rng.random() < 0.12:
        prefixes = ["Please ", "Can you ", "Could you ", "Now ", "Ok, ", "Hey, "]
        first = text.split(" ")[0].rstrip(".?!,:")
        prefix = rng.choice(prefixes if first in IMPERATIVES else prefixes[4:])
        text = prefix + text[0].lower() + text[1:]
    if rng.random() < 0.25:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.3 and text[-1] in ".?!":
        text = text[:-1]
    elif rng.random() < 0.06:
        text = text.rstrip(".?!") + rng.choice([" please", ", please", " please.", "!", ".", "?"])
    return text


def random_word(rng):
    """A word of 3 to 9 letters that is in no list: of syllables, or the ends of two words of the lists. The latter
    teaches how the tokens of real words are spelled."""
    while True:
        if rng.random() < 0.4:
            first, second = rng.choice(COMMON_WORDS), rng.choice(COMMON_WORDS)
            word = first[:rng.randint(1, len(first))] + second[rng.randint(0, len(second) - 1):]
        else:
            word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
                           for _ in range(rng.choice([1, 2, 2, 2, 3])))
        if 3 <= len(word) <= 9 and not any(part in word for part in AVOIDED):
            return word


def any_word(rng, random_share=0.5):
    return random_word(rng) if rng.random() < random_share else rng.choice(COMMON_WORDS)


def any_name(rng):
    return rng.choice(NAMES) if rng.random() < 0.7 else random_word(rng).capitalize()


def quoted(rng, text):
    return rng.choice([f'"{text}"', f'"{text}"', f"'{text}'"])


# ---------------------------------------------------------------- counting

def count_numbers(rng):
    """First and last number; half of the counts are short, so that stopping is seen often."""
    shape = rng.random()
    if shape < 0.12:
        return 1, rng.randint(1, 25 if rng.random() < 0.7 else MAX_NUMBER)
    span = rng.randint(0, 6) if shape < 0.55 else rng.randint(4, 20) if shape < 0.88 else rng.randint(15, 45)
    low = rng.randint(0, MAX_NUMBER - span)
    return low, low + span


def counting(rng):
    low, high = count_numbers(rng)
    if rng.random() < 0.6 or low == high:
        if low == 1 and rng.random() < 0.6:
            user = rng.choice(["Count to {b}.", "Count up to {b}.", "Count from one to {b}."])
        else:
            user = rng.choice(["Count from {a} to {b}.", "Count from {a} to {b}.", "Count up from {a} to {b}.",
                               "Count from {a} up to {b}.", "List the numbers from {a} to {b}.",
                               "Numbers from {a} to {b}."])
        numbers, first, last, category = range(low, high + 1), low, high, "counting_up"
    else:
        if low == 1 and rng.random() < 0.4:
            user = rng.choice(["Count down from {a}.", "Count backwards from {a}."])
        else:
            user = rng.choice(["Count down from {a} to {b}.", "Count down from {a} to {b}.",
                               "Count from {a} down to {b}.", "Count backwards from {a} to {b}.",
                               "Count from {a} to {b}."])
        numbers, first, last, category = range(high, low - 1, -1), high, low, "counting_down"
    return Turn(vary(rng, user.format(a=first, b=last)), ", ".join(map(str, numbers)), category,
                f"count {first} {last}")


def too_large(rng):
    number = rng.randint(201, 1000) if rng.random() < 0.6 else rng.choice([500, 1000, 2000, 5000, 10000, 1000000])
    other = rng.randint(1, 999)
    if rng.random() < 0.5:
        user = rng.choice([f"Count to {number}.", f"Count from {other} to {number}.", f"Count down from {number}."])
        return Turn(vary(rng, user), f"I can only count up to {MAX_NUMBER}.", "limits")
    user = rng.choice([f"What is {number} + {other}?", f"{number} + {other}", f"{number} - {other}",
                       f"What is {number} minus {other}?", f"What is {other} times {rng.randint(2, 99)}?",
                       f"{rng.randint(2, 99)} * {rng.randint(2, 99)}", f"What is {number} divided by {other}?"])
    return Turn(vary(rng, user), "I can only add and subtract numbers up to 100.", "limits")


# ---------------------------------------------------------------- words

def spelling(rng):
    word = any_word(rng, 0.6)
    user = rng.choice(["Spell {w}.", "Spell the word {w}.", "How do you spell {w}?", "Spell {q}.",
                       "Spell the word {q}.", "Spell out {w}.", "How is {w} spelled?"])
    return Turn(vary(rng, user.format(w=word, q=quoted(rng, word))), "-".join(word), "spelling", f"word {word}")


def reversing(rng):
    word = any_word(rng, 0.6)
    user = rng.choice(["Reverse {w}.", "Reverse the word {w}.", "Spell {w} backwards.", "Reverse {q}.",
                       "Reverse the word {q}.", "What is {w} backwards?", "Write {w} backwards."])
    answer = "-".join(word) + ", reversed: " + "-".join(reversed(word))
    return Turn(vary(rng, user.format(w=word, q=quoted(rng, word))), answer, "reversing", f"word {word}")


def phrase(rng):
    shape = rng.random()
    if shape < 0.25:
        return any_word(rng, 0.2)
    if shape < 0.7:
        return f"{rng.choice(ADJECTIVES + COLORS)} {rng.choice(ANIMALS + FOODS + THINGS)}"
    if shape < 0.85:
        return f"the {rng.choice(ADJECTIVES)} {rng.choice(ANIMALS)} and the {rng.choice(ANIMALS)}"
    return f"I like {rng.choice(COLORS)} {rng.choice(FOODS + THINGS)}"


def repeating(rng):
    words = phrase(rng)
    times = rng.randint(1, 5) if rng.random() < 0.5 else rng.randint(2, 12 if rng.random() < 0.85 else 40)
    user = rng.choice(["Repeat {q} {n} times.", "Say {q} {n} times.", "Write {q} {n} times.",
                       "Repeat {n} times: {w}", "Say {n} times: {w}", "Repeat the phrase {q} {n} times.",
                       "Repeat {w} {n} times."])
    user = vary(rng, user.format(w=words, q=quoted(rng, words), n=times))
    answer = "\n".join(f"{i}. {words}" for i in range(1, times + 1))
    return Turn(user.replace(" 1 times", " 1 time"), answer, "repeating", f"repeat {words} {times}")


# ---------------------------------------------------------------- lists

def sorting(rng):
    if rng.random() < 0.65:
        count = rng.randint(2, 5) if rng.random() < 0.6 else rng.randint(4, 9)
        items = rng.sample(range(0, MAX_NUMBER + 1 if rng.random() < 0.7 else 21), count)
        descending = rng.random() < 0.3
        ordered, what, category = sorted(items, reverse=descending), "numbers", "sorting_numbers"
        users = ["Sort these numbers in descending order: {x}", "Sort from largest to smallest: {x}",
                 "Sort these numbers from largest to smallest: {x}", "Sort {x} in descending order."] if descending else \
            ["Sort these numbers: {x}", "Sort the numbers {x}.", "Sort {x}.", "Sort: {x}",
             "Put these numbers in order: {x}", "Sort from smallest to largest: {x}", "Sort {x} in ascending order."]
    else:
        count = rng.randint(2, 4) if rng.random() < 0.7 else rng.randint(4, 6)
        what, category, descending = "words", "sorting_words", False
        if rng.random() < 0.25:
            items = rng.sample(LETTERS, count)
        else:
            by_initial = {}
            for word in rng.sample(COMMON_WORDS, 3 * count):
                by_initial.setdefault(word[0], word)
            items = list(by_initial.values())[:count]
        ordered = sorted(items)
        users = ["Sort these words: {x}", "Sort the words {x}.", "Sort alphabetically: {x}", "Sort {x}.",
                 "Put these words in alphabetical order: {x}", "Sort these words alphabetically: {x}"]
        if len(items[0]) == 1:
            users = ["Sort these letters: {x}", "Sort the letters {x}.", "Sort alphabetically: {x}"]
    separator = rng.choice([", ", ", ", ", ", " "])
    listed = separator.join(map(str, items))
    if separator == ", " and rng.random() < 0.3:
        listed = ", ".join(map(str, items[:-1])) + f" and {items[-1]}"
    answer = "Sorted: " + ", ".join(map(str, ordered))
    return Turn(vary(rng, rng.choice(users).format(x=listed)), answer, category,
                f"sort {what} {descending} {' '.join(map(str, items))}")


def series(rng):
    """Weekdays, months and the alphabet: whole, from one to another, neighbours."""
    names, what = rng.choice([(WEEKDAYS, "days of the week"), (MONTHS, "months"), (MONTHS, "months of the year"),
                              (LETTERS, "letters")])
    kind = {"days of the week": "weekday", "letters": "letter"}.get(what, "month")
    category = {"weekday": "weekdays", "month": "months", "letter": "letters"}[kind]
    size, shape = len(names), rng.random()
    if shape < 0.12:
        what = "alphabet" if kind == "letter" else what
        if rng.random() < 0.65:
            user = rng.choice([f"List the {what}.", f"Name the {what}.", f"List the {what} in order.",
                               f"What are the {what}?", f"Say the {what}."])
            return Turn(vary(rng, user.replace("What are the alphabet", "What is the alphabet")),
                        ", ".join(names), category)
        user = rng.choice([f"List the {what} backwards.", f"Say the {what} backwards.",
                           f"List the {what} in reverse order."])
        return Turn(vary(rng, user), ", ".join(reversed(names)), category)
    i, j = rng.sample(range(size), 2)
    if shape < 0.65:
        if kind == "letter":
            i, j = min(i, j), max(i, j)
        last = j if j >= i else j + size
        noun = {"weekday": "days", "month": "months", "letter": "letters"}[kind]
        user = rng.choice([f"List the {noun} from {names[i]} to {names[j]}.", f"Name the {noun} from {names[i]} to {names[j]}.",
                           f"The {noun} from {names[i]} to {names[j]}.", f"What are the {noun} from {names[i]} to {names[j]}?"])
        return Turn(vary(rng, user), ", ".join(names[k % size] for k in range(i, last + 1)), category,
                    f"series {kind} {i} {j}")
    noun = {"weekday": "day", "month": "month", "letter": "letter"}[kind]
    if shape < 0.85:
        if kind == "letter" and i == 0:
            i = 1
        after = rng.random() < 0.5 if not (kind == "letter" and i == size - 1) else False
        word, other = ("after", names[(i + 1) % size]) if after else ("before", names[i - 1])
        user = rng.choice([f"What {noun} comes {word} {names[i]}?", f"Which {noun} is {word} {names[i]}?",
                           f"Which {noun} comes {word} {names[i]}?", f"What comes {word} {names[i]}?"])
        return Turn(vary(rng, user), f"{other} comes {word} {names[i]}.", category)
    count = rng.randint(1, size)
    user = rng.choice([f"List the first {count} {what}.", f"Name the first {count} {what}."])
    return Turn(vary(rng, user), ", ".join(names[:count]), category)


# ---------------------------------------------------------------- arithmetic

def addition_steps(a, b):
    """27 + 38: the tens of the second number first, then its ones."""
    tens, ones = b - b % 10, b % 10
    if tens and ones and a >= 10:
        return f"{a} + {tens} = {a + tens}, {a + tens} + {ones} = {a + b}, so {a} + {b} = {a + b}"
    return f"{a} + {b} = {a + b}"


def subtraction_steps(a, b):
    tens, ones = b - b % 10, b % 10
    if tens and ones:
        return f"{a} - {tens} = {a - tens}, {a - tens} - {ones} = {a - b}, so {a} - {b} = {a - b}"
    return f"{a} - {b} = {a - b}"


def addition(rng):
    if rng.random() < 0.25:
        a, b = rng.randint(0, 20), rng.randint(0, 20)
    else:
        total = rng.randint(10, 100)
        a = rng.randint(0, total)
        b = total - a
    user = rng.choice([f"What is {a} + {b}?", f"What is {a} plus {b}?", f"{a} + {b}", f"{a} + {b} = ?", f"Add {a} and {b}.",
                       f"How much is {a} + {b}?", f"{a} plus {b}", f"{a}+{b}", f"Calculate {a} + {b}.",
                       f"I have {a} {rng.choice(FOODS)}s and get {b} more. How many do I have?"])
    return Turn(vary(rng, user), addition_steps(a, b), "addition", f"add {a} {b}")


def subtraction(rng):
    a = rng.randint(0, 20) if rng.random() < 0.25 else rng.randint(5, 100)
    b = rng.randint(0, a)
    user = rng.choice([f"What is {a} - {b}?", f"What is {a} minus {b}?", f"{a} - {b}", f"{a} - {b} = ?",
                       f"Subtract {b} from {a}.", f"How much is {a} - {b}?", f"{a} minus {b}", f"{a}-{b}",
                       f"Calculate {a} - {b}.", f"I have {a} {rng.choice(FOODS)}s and give away {b}. How many are left?"])
    return Turn(vary(rng, user), subtraction_steps(a, b), "subtraction", f"subtract {a} {b}")


# ---------------------------------------------------------------- memory across turns

# kind: (how values are drawn, what the user says, the answer, questions, the recalling answer, without the fact)
FACTS = {
    "name": (any_name,
             ["My name is {v}.", "My name is {v}.", "I am {v}.", "I am called {v}.", "Hi, I am {v}.", "Hello, my name is {v}.",
              "You can call me {v}."],
             "Nice to meet you, {v}.", ["What is my name?", "What is my name?", "Who am I?", "Do you remember my name?",
                                        "What am I called?", "Tell me my name."],
             "Your name is {v}.", "You have not told me your name."),
    "number": (lambda rng: str(rng.randint(0, MAX_NUMBER if rng.random() < 0.8 else 199)),
               ["Remember the number {v}.", "Please remember the number {v}.", "Keep the number {v} in mind.",
                "The secret number is {v}.", "My number is {v}."],
               "I will remember the number {v}.",
               ["What number did I tell you?", "What is the number?", "Which number did I ask you to remember?",
                "What was the number?", "What is the secret number?", "Do you remember the number?"],
               "The number is {v}.", "You have not told me a number."),
    "word": (lambda rng: any_word(rng, 0.3),
             ["Remember the word {v}.", "The secret word is {v}.", "The password is {v}.", "Keep the word {v} in mind."],
             "I will remember the word {v}.",
             ["What is the word?", "What word did I tell you?", "What is the secret word?", "What was the word?",
              "Which word did I ask you to remember?", "What is the password?"],
             "The word is {v}.", "You have not told me a word."),
    "color": (lambda rng: rng.choice(COLORS),
              ["My favorite color is {v}.", "I like the color {v} best.", "My favourite color is {v}."],
              "I will remember that your favorite color is {v}.",
              ["What is my favorite color?", "Which color do I like best?", "What color do I like?"],
              "Your favorite color is {v}.", "You have not told me your favorite color."),
    "food": (lambda rng: rng.choice(FOODS),
             ["My favorite food is {v}.", "I like to eat {v}.", "I love to eat {v}."],
             "I will remember that you like {v}.",
             ["What is my favorite food?", "What do I like to eat?", "Which food do I like?"],
             "You like {v}.", "You have not told me what you like to eat."),
    "city": (lambda rng: rng.choice(CITIES) if rng.random() < 0.7 else random_word(rng).capitalize(),
             ["I live in {v}.", "My home is in {v}.", "I am from {v}."],
             "I will remember that you live in {v}.",
             ["Where do I live?", "Which city do I live in?", "In which city do I live?", "Where am I from?"],
             "You live in {v}.", "You have not told me where you live."),
    "pet": (any_name,
            ["My pet is called {v}.", "My pet's name is {v}.", "I have a pet called {v}."],
            "I will remember that your pet is called {v}.",
            ["What is my pet called?", "What is the name of my pet?", "What is my pet's name?"],
            "Your pet is called {v}.", "You have not told me about a pet."),
    "age": (lambda rng: str(rng.randint(5, 99)),
            ["I am {v} years old.", "My age is {v}."],
            "I will remember that you are {v} years old.",
            ["How old am I?", "What is my age?", "Do you know how old I am?"],
            "You are {v} years old.", "You have not told me your age."),
}


def tell_fact(rng, dialogue, kind=None):
    kind = kind or rng.choice([k for k in FACTS if k not in dialogue.facts] or list(FACTS))
    draw, statements, acknowledgement = FACTS[kind][:3]
    value = draw(rng)
    statement = rng.choice(statements).format(v=value)
    if kind in dialogue.facts and rng.random() < 0.7:
        statement = rng.choice(["Actually, ", "No, ", "Sorry, "]) + \
            (statement if statement.startswith("I ") else statement[0].lower() + statement[1:])
    elif rng.random() < 0.3:
        statement = statement.rstrip(".")
    dialogue.facts[kind] = value
    dialogue.fact_turns[kind] = len(dialogue.turns)
    return Turn(statement, acknowledgement.format(v=value), "telling", f"fact {kind} {value}")


def recall_fact(rng, dialogue, kind):
    questions, recalled = FACTS[kind][3:5]
    value = dialogue.facts[kind]
    return Turn(vary(rng, rng.choice(questions)), recalled.format(v=value), "memory", f"fact {kind} {value}")


def unknown_fact(rng, dialogue):
    kind = rng.choice([k for k in FACTS if k not in dialogue.facts] or ["none"])
    if kind == "none":
        return unknown(rng)
    return Turn(vary(rng, rng.choice(FACTS[kind][3])), FACTS[kind][5], "memory_empty")


# ---------------------------------------------------------------- conversation

ABILITIES = "I can count, spell and reverse words, repeat phrases, sort lists, add and subtract small numbers, name " \
            "weekdays and months, tell stories, and remember what you tell me."

CONVERSATION = [
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself.",
      "Are you a robot?", "Are you human?", "Are you an AI?", "What model are you?", "Which model is this?"],
     "I am the demo model of troupe, a very small language model."),
    (["What is troupe?", "Tell me about troupe.", "What does troupe do?", "Explain troupe.", "What is Troupe?",
      "What program is this?", "What server is this?", "What is this?"],
     "Troupe is a server for language models. It is written in C++ and built from actors: small workers that share "
     "nothing and talk by messages. It sends every answer token by token."),
    (["What can you do?", "Help", "Help me.", "How can you help me?", "What do you know?", "What can I ask you?",
      "What should I ask?", "What are you good at?", "Give me an example.", "How does this work?", "What now?"],
     ABILITIES),
    (["Hello", "Hi", "Hello!", "Hi there!", "Hey", "Good morning.", "Good evening.", "Hello there.", "Hey there",
      "Good day.", "Greetings."], "Hello! " + ABILITIES),
    (["How are you?", "How are you doing?", "How do you do?", "Are you well?", "How is it going?"],
     "I am well, thank you. What can I do for you?"),
    (["Thank you.", "Thanks!", "Thanks a lot.", "Thank you very much.", "Great, thanks.", "Thanks", "Nice.", "Great!",
      "Well done.", "Good job.", "Cool.", "Ok", "Okay.", "Very good.", "Wow!"], "You are welcome."),
    (["Bye", "Goodbye.", "See you later.", "Good night.", "Bye bye!", "See you."], "Goodbye!"),
    (["Say yes.", "Answer yes.", "Just say yes."], "Yes"),
    (["Say no.", "Answer no.", "Just say no."], "No"),
    (["Are you there?", "Can you hear me?", "Test", "This is a test.", "Testing", "ping"], "Yes, I am here."),
    (["Who made you?", "Who built you?", "Who trained you?", "How were you trained?", "How were you made?"],
     "I was trained by the developers of troupe, only on dialogues that a small program wrote."),
    (["How big are you?", "How many parameters do you have?", "How large are you?", "How small are you?"],
     "I have about three million parameters. That is very small."),
]


def conversation(rng):
    questions, answer = rng.choice(CONVERSATION)
    return Turn(vary(rng, rng.choice(questions)), answer, "conversation")


def unknown(rng):
    question = rng.choice(UNKNOWN_QUESTIONS).strip().format(
        place=rng.choice(CITIES), thing=any_word(rng, 0.15), topic=rng.choice(UNKNOWN_TOPICS).strip(),
        animal=rng.choice(ANIMALS), food=rng.choice(FOODS), adjective=rng.choice(ADJECTIVES), city=rng.choice(CITIES))
    return Turn(vary(rng, question), "I am a very small model and do not know about that. " + ABILITIES, "unknown")


def story(rng):
    return Turn(*stories.story_turn(rng, vary))


# ---------------------------------------------------------------- dialogues

SYSTEM_PROMPTS = ["You are a helpful assistant.", "You are a helpful assistant.", "You are a friendly assistant.",
                  "You are the demo model of troupe.", "You are a helpful AI assistant. Answer briefly.",
                  "Answer the user's questions.", "Be brief.", "Be concise and helpful.", "You are a chat bot."]

TASKS = {"counting": counting, "spelling": spelling, "reversing": reversing, "repeating": repeating,
         "sorting": sorting, "series": series, "addition": addition, "subtraction": subtraction,
         "conversation": conversation, "unknown": unknown, "limits": too_large, "story": story}

# How often a turn of each kind is drawn. train.py may be given another mix for each phase.
MIX = {"counting": 20, "spelling": 7, "reversing": 9, "repeating": 7, "sorting": 12, "series": 8, "addition": 12,
       "subtraction": 12, "conversation": 4, "unknown": 3, "limits": 0.7, "story": 1.2}


def draw_turn(rng, dialogue, mix, memory_share):
    """The next turn of a training dialogue; memory turns are drawn when the dialogue is to have any."""
    if rng.random() < memory_share:
        if dialogue.facts and rng.random() < 0.6:
            return recall_fact(rng, dialogue, rng.choice(list(dialogue.facts)))
        if rng.random() < 0.08:
            return unknown_fact(rng, dialogue)
        if len(dialogue.facts) < 5 or rng.random() < 0.1:
            return tell_fact(rng, dialogue, rng.choice(list(FACTS)) if rng.random() < 0.1 else None)
    return TASKS[rng.choices(mix[0], mix[1])[0]](rng)


def training_dialogue(rng, max_turns, mix=None, memory_share=None):
    """A dialogue none of whose turns is held out."""
    mix = mix or MIX
    weights = (list(mix.keys()), list(mix.values()))
    if memory_share is None:
        memory_share = 0.0 if max_turns == 1 and rng.random() < 0.8 else rng.choice([0.0, 0.25, 0.5])
    dialogue = Dialogue([])
    if rng.random() < 0.15:
        dialogue.system = rng.choice(SYSTEM_PROMPTS)
    while len(dialogue.turns) < max_turns:
        facts, fact_turns = dict(dialogue.facts), dict(dialogue.fact_turns)
        turn = draw_turn(rng, dialogue, weights, memory_share)
        if is_held_out(turn.key):
            dialogue.facts, dialogue.fact_turns = facts, fact_turns
        else:
            dialogue.turns.append(turn)
    return dialogue


# ---------------------------------------------------------------- held-out questions

HELD_OUT_CATEGORIES = {
    "counting_up": counting, "counting_down": counting, "spelling": spelling, "reversing": reversing,
    "repeating": repeating, "sorting_numbers": sorting, "sorting_words": sorting, "weekdays": series,
    "months": series, "letters": series, "addition": addition, "subtraction": subtraction, "story": story}


def held_out_turn(rng, category):
    while True:
        turn = HELD_OUT_CATEGORIES[category](rng)
        if turn.category == category and is_held_out(turn.key):
            return turn


def held_out_dialogue(rng, category):
    """A dialogue whose last turn is held out. Memory: told at least six turns before it is asked for."""
    if category == "memory":
        return held_out_memory(rng)
    dialogue = training_dialogue(rng, rng.randint(1, 4)) if rng.random() < 0.3 else Dialogue([])
    if rng.random() < 0.15:
        dialogue.system = rng.choice(SYSTEM_PROMPTS)
    dialogue.turns.append(held_out_turn(rng, category))
    return dialogue


def held_out_memory(rng):
    while True:
        dialogue = training_dialogue(rng, rng.randint(0, 3), memory_share=0.3)
        telling = tell_fact(rng, dialogue)
        if not is_held_out(telling.key):
            continue
        dialogue.turns.append(telling)
        kind = telling.key.split()[1]
        value = dialogue.facts[kind]
        for _ in range(rng.randint(6, 10)):
            others = Dialogue([], facts={k: v for k, v in dialogue.facts.items() if k != kind})
            turn = draw_turn(rng, others, (list(MIX), list(MIX.values())), 0.3)
            while turn.key == telling.key or turn.category == "memory_empty" or \
                    (turn.category == "telling" and turn.key.split()[1] == kind):
                turn = TASKS[rng.choice(["counting", "addition", "sorting"])](rng)
            dialogue.turns.append(turn)
        dialogue.facts[kind] = value
        dialogue.turns.append(recall_fact(rng, dialogue, kind))
        return dialogue


def held_out_questions(seed, per_category):
    """The same questions for the same seed: dictionaries with category, messages and expected answer."""
    questions = []
    for category in [*HELD_OUT_CATEGORIES, "memory"]:
        rng = random.Random(f"{seed} {category}")
        for _ in range(per_category):
            messages = held_out_dialogue(rng, category).messages()
            questions.append({"category": category, "messages": messages[:-1], "expected": messages[-1]["content"]})
    for questions_of_intent, answer in CONVERSATION:
        questions.append({"category": "conversation", "messages": [{"role": "user", "content": questions_of_intent[0]}],
                          "expected": answer})
    return questions


# ---------------------------------------------------------------- command line

def show(arguments):
    rng = random.Random(arguments.seed)
    for _ in range(arguments.count):
        for message in training_dialogue(rng, rng.randint(1, 8)).messages():
            print(f"{message['role']:>10}: {message['content']}")
        print()


def export(arguments):
    questions = held_out_questions(arguments.seed, arguments.per_category)
    with open(arguments.output, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(q, ensure_ascii=False) for q in questions) + "\n]\n")
    print(f"{len(questions)} questions written to {arguments.output}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("show")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--count", type=int, default=5)
    command.set_defaults(function=show)
    command = commands.add_parser("export")
    command.add_argument("--seed", type=int, default=2026)
    command.add_argument("--per-category", type=int, default=20)
    command.add_argument("--output", required=True)
    command.set_defaults(function=export)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    sys.exit(main())
