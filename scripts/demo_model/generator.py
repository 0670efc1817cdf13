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
from facts import FACTS, MAX_NUMBER, any_name, starts_with_a_name, word_statement
from made_up import made_up_word
from words import (ADJECTIVES, ANIMALS, CITIES, COLORS, COMMON_WORDS, FOODS, LETTERS, MONTHS, NAMES, THINGS,
                   UNKNOWN_QUESTIONS, UNKNOWN_TOPICS, WEEKDAYS)

MAX_FACTOR = 10
IMPERATIVES = set("Count List Spell Reverse Write Repeat Say Sort Put Name Add Subtract Multiply Calculate Tell Explain "
                  "Give Help Introduce".split())
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


def any_word(rng, made_up_share=0.5):
    return made_up_word(rng) if rng.random() < made_up_share else rng.choice(COMMON_WORDS)


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
    number = rng.randint(131, 1000) if rng.random() < 0.6 else rng.choice([500, 1000, 2000, 5000, 10000, 1000000])
    other = rng.randint(1, 999)
    if rng.random() < 0.4:
        user = rng.choice([f"Count to {number}.", f"Count from {other} to {number}.", f"Count down from {number}."])
        return Turn(vary(rng, user), f"I can only count up to {MAX_NUMBER}.", "limits")
    factor, small = rng.randint(MAX_FACTOR + 1, 99 if rng.random() < 0.8 else 999), rng.randint(0, 99)
    a, b = rng.choice([(factor, small), (small, factor)])
    user = rng.choice([f"What is {number} + {other}?", f"{number} + {other}", f"{number} - {other}",
                       f"What is {number} minus {other}?", f"What is {a} times {b}?", f"{a} * {b}", f"{a} x {b}",
                       f"Multiply {a} by {b}.", f"What is {other} divided by {small}?", f"Divide {other} by {small}.",
                       f"{small} / {rng.randint(1, 20)}", f"What is {small} divided by {rng.randint(1, 20)}?"])
    return Turn(vary(rng, user), f"I can only add and subtract up to 100 and multiply up to {MAX_FACTOR}.", "limits")


# ---------------------------------------------------------------- words

def word_or_name(rng):
    return any_name(rng) if rng.random() < 0.12 else any_word(rng, 0.7)


def spelling(rng):
    word = word_or_name(rng)
    user = rng.choice(["Spell {w}.", "Spell the word {w}.", "How do you spell {w}?", "Spell {q}.",
                       "Spell the word {q}.", "Spell out {w}.", "How is {w} spelled?", "Spell: {w}",
                       "Letter by letter: {w}",
                       "How is the word {w} written?", "Spell {w} letter by letter."])
    return Turn(vary(rng, user.format(w=word, q=quoted(rng, word))), "-".join(word), "spelling", f"word {word}")


def reversing(rng):
    word = word_or_name(rng)
    user = rng.choice(["Reverse {w}.", "Reverse the word {w}.", "Spell {w} backwards.", "Reverse {q}.",
                       "Reverse the word {q}.", "What is {w} backwards?", "Write {w} backwards.",
                       "Reverse: {w}", "Say {w} backwards.", "Turn {w} around."])
    answer = "-".join(word) + ", reversed: " + "-".join(reversed(word))
    return Turn(vary(rng, user.format(w=word, q=quoted(rng, word))), answer, "reversing", f"word {word}")


def phrase(rng):
    shape = rng.random()
    if shape < 0.25:
        return word_or_name(rng)
    if shape < 0.5:
        return f"{rng.choice(ADJECTIVES + COLORS)} {any_word(rng, 0.4)}"
    if shape < 0.6:
        return f"the {rng.choice(ADJECTIVES)} {rng.choice(ANIMALS)} and the {any_word(rng, 0.4)}"
    if shape < 0.7:
        return f"I like {rng.choice(COLORS)} {any_word(rng, 0.4)}"
    if shape < 0.8:
        return f"{any_name(rng)} {rng.choice(['likes', 'is', 'sees', 'and', 'has'])} {word_or_name(rng)}"
    return " ".join(any_word(rng, 0.5) for _ in range(rng.randint(2, 5)))


def echoing(rng):
    words = phrase(rng)
    user = rng.choice(["Repeat after me: {w}", "Repeat: {w}", "Say {q}.", "Repeat {q}.", "Say: {w}", "Write {q}.",
                       "Repeat the words {q}.", "Say this: {w}", "Echo {q}.", "Repeat this: {w}"])
    return Turn(vary(rng, user.format(w=words, q=quoted(rng, words))), words, "echoing", f"echo {words}")


def repeating(rng):
    words = phrase(rng)
    times = rng.randint(1, 5) if rng.random() < 0.5 else rng.randint(2, 12 if rng.random() < 0.85 else 40)
    user = rng.choice(["Repeat {q} {n} times.", "Say {q} {n} times.", "Write {q} {n} times.",
                       "Repeat {n} times: {w}", "Say {n} times: {w}", "Repeat the phrase {q} {n} times.",
                       "Repeat {w} {n} times.", "Say {w} {n} times.", "Write {n} times {q}.", "{n} times: {w}"])
    user = vary(rng, user.format(w=words, q=quoted(rng, words), n=times))
    answer = "\n".join(f"{i}. {words}" for i in range(1, times + 1))
    return Turn(user.replace(" 1 times", " 1 time"), answer, "repeating", f"repeat {words} {times}")


# ---------------------------------------------------------------- lists

def words_to_sort(rng, count):
    """Letters, or words of the lists and made-up ones, or names; mostly with different initials."""
    shape = rng.random()
    if shape < 0.12:
        return rng.sample(LETTERS, count)
    share = rng.choice([0.0, 0.5, 1.0, 1.0])
    draw = any_name if shape < 0.3 else lambda rng: any_word(rng, share)
    clash = rng.random() < 0.2
    items = {}
    while len(items) < count:
        word = draw(rng)
        items.setdefault(word if clash else word[0], word)
    return list(items.values())


def sorting(rng):
    if rng.random() < 0.4:
        count = rng.randint(2, 5) if rng.random() < 0.6 else rng.randint(4, 9)
        items = rng.sample(range(0, MAX_NUMBER + 1 if rng.random() < 0.7 else 21), count)
        descending = rng.random() < 0.3
        ordered, what, category = sorted(items, reverse=descending), "numbers", "sorting_numbers"
        users = ["Sort these numbers in descending order: {x}", "Sort from largest to smallest: {x}",
                 "Sort these numbers from largest to smallest: {x}",
                 "Sort {x} in descending order."] if descending else \
            ["Sort these numbers: {x}", "Sort the numbers {x}.", "Sort {x}.", "Sort: {x}",
             "Put these numbers in order: {x}", "Sort from smallest to largest: {x}", "Sort {x} in ascending order."]
    else:
        count = rng.randint(2, 4) if rng.random() < 0.7 else rng.randint(4, 6)
        what, category, descending = "words", "sorting_words", False
        items = words_to_sort(rng, count)
        ordered = sorted(items)
        users = ["Sort these words: {x}", "Sort the words {x}.", "Sort alphabetically: {x}", "Sort {x}.",
                 "Put these words in alphabetical order: {x}", "Sort these words alphabetically: {x}", "Sort: {x}",
                 "Sort from a to z: {x}", "Put {x} in alphabetical order.", "Order these words: {x}"]
        if items[0][0].isupper():
            users += ["Sort these names: {x}", "Sort the names {x}.", "Put these names in alphabetical order: {x}"]
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
        user = rng.choice([f"List the {noun} from {names[i]} to {names[j]}.",
                           f"Name the {noun} from {names[i]} to {names[j]}.",
                           f"The {noun} from {names[i]} to {names[j]}.",
                           f"What are the {noun} from {names[i]} to {names[j]}?"])
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
    user = rng.choice([f"What is {a} + {b}?", f"What is {a} plus {b}?", f"{a} + {b}", f"{a} + {b} = ?",
                       f"Add {a} and {b}.",
                       f"How much is {a} + {b}?", f"{a} plus {b}", f"{a}+{b}", f"Calculate {a} + {b}.",
                       f"I have {a} {rng.choice(FOODS)}s and get {b} more. How many do I have?"])
    return Turn(vary(rng, user), addition_steps(a, b), "addition", f"add {a} {b}")


def subtraction(rng):
    a = rng.randint(0, 20) if rng.random() < 0.25 else rng.randint(5, 100)
    b = rng.randint(0, a)
    user = rng.choice([f"What is {a} - {b}?", f"What is {a} minus {b}?", f"{a} - {b}", f"{a} - {b} = ?",
                       f"Subtract {b} from {a}.", f"How much is {a} - {b}?", f"{a} minus {b}", f"{a}-{b}",
                       f"Calculate {a} - {b}.",
                       f"I have {a} {rng.choice(FOODS)}s and give away {b}. How many are left?"])
    return Turn(vary(rng, user), subtraction_steps(a, b), "subtraction", f"subtract {a} {b}")


def multiplication(rng):
    """The whole table is learned by heart: too few products to hold some out."""
    a, b = rng.randint(0 if rng.random() < 0.2 else 1, MAX_FACTOR), rng.randint(1, MAX_FACTOR)
    user = rng.choice([f"What is {a} times {b}?", f"What is {a} * {b}?", f"{a} * {b}", f"{a} x {b}", f"{a} times {b}",
                       f"Multiply {a} by {b}.", f"Multiply {a} and {b}.", f"How much is {a} times {b}?", f"{a}*{b}",
                       f"Calculate {a} * {b}.", f"What is {a} x {b}?"])
    return Turn(vary(rng, user), f"{a} * {b} = {a * b}", "multiplication")


# ---------------------------------------------------------------- memory across turns

def draw_kind(rng, kinds):
    kinds = list(kinds)
    return rng.choices(kinds, [FACTS[kind].weight for kind in kinds])[0]


def tell_fact(rng, dialogue, kind=None):
    kind = kind or draw_kind(rng, [k for k in FACTS if k not in dialogue.facts] or FACTS)
    fact = FACTS[kind]
    value, statement = fact.draw(rng), word_statement(rng, fact)
    if kind in dialogue.facts and rng.random() < 0.7:
        statement = rng.choice(["Actually, ", "No, ", "Sorry, "]) + \
            (statement if starts_with_a_name(statement) else statement[0].lower() + statement[1:])
    elif rng.random() < 0.3:
        statement = statement.rstrip(".")
    if rng.random() < 0.15 and not statement.startswith("{v}"):
        statement = statement[0].lower() + statement[1:]
    dialogue.facts[kind] = value
    dialogue.fact_turns[kind] = len(dialogue.turns)
    return Turn(statement.format(v=value), fact.acknowledgement.format(v=value), "telling", f"fact {kind} {value}")


def recall_fact(rng, dialogue, kind):
    value = dialogue.facts[kind]
    return Turn(vary(rng, rng.choice(FACTS[kind].questions)), FACTS[kind].recalled.format(v=value), "memory",
                f"fact {kind} {value}")


def unknown_fact(rng, dialogue):
    kinds = [k for k in FACTS if k not in dialogue.facts]
    if not kinds:
        return unknown(rng)
    fact = FACTS[draw_kind(rng, kinds)]
    return Turn(vary(rng, rng.choice(fact.questions)), fact.missing, "memory_empty")


# ---------------------------------------------------------------- conversation

ABILITIES = "I can count, spell and reverse words, repeat phrases, sort lists, add and subtract small numbers, name " \
            "weekdays and months, tell stories, and remember what you tell me."

CONVERSATION = [
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself.",
      "Are you a robot?", "Are you human?", "Are you an AI?", "What model are you?", "Which model is this?",
      "Who is this?", "Who are you really?", "What's your name?", "Do you have a name?", "Who am I talking to?",
      "Hi, who are you?", "Hello, who are you?", "What kind of model are you?", "And who are you?",
      "What are you called?"],
     "I am the demo model of troupe, a very small language model."),
    (["What is troupe?", "Tell me about troupe.", "What does troupe do?", "Explain troupe.", "What is Troupe?",
      "What program is this?", "What server is this?", "What is this?", "What do you know about troupe?",
      "How does troupe work?",
      "Describe troupe.", "What is troupe for?", "What kind of server is this?"],
     "Troupe is a server for language models. It is written in C++ and built from actors: small workers that share "
     "nothing and talk by messages. It sends every answer token by token."),
    (["What can you do?", "Help", "Help me.", "How can you help me?", "What do you know?", "What can I ask you?",
      "What should I ask?", "What are you good at?", "Give me an example.", "How does this work?", "What now?",
      "What else can you do?", "What are your abilities?", "Can you help me?", "I need help.", "What can I do here?",
      "Show me what you can do.", "What do you do?", "How can I use you?", "Tell me what you can do.",
      "What can you not do?"],
     ABILITIES),
    (["Hello", "Hi", "Hello!", "Hi there!", "Hey", "Good morning.", "Good evening.", "Hello there.", "Hey there",
      "Good day.", "Greetings.", "Hi.", "hello", "hey", "Hey!", "Hi!", "Good afternoon.", "Hello, hello.",
      "Hello again."], "Hello! " + ABILITIES),
    (["How are you?", "How are you doing?", "How do you do?", "Are you well?", "How is it going?"],
     "I am well, thank you. What can I do for you?"),
    (["Thank you.", "Thanks!", "Thanks a lot.", "Thank you very much.", "Great, thanks.", "Thanks", "Nice.", "Great!",
      "Well done.", "Good job.", "Cool.", "Ok", "Okay.", "Very good.", "Wow!", "Thank you so much!", "Many thanks.",
      "That is right.", "Perfect.",
      "Right.", "Correct.", "That was good.", "Thx", "Awesome!", "Fine.", "Good."], "You are welcome."),
    (["Bye", "Goodbye.", "See you later.", "Good night.", "Bye bye!", "See you.", "Bye.", "Good bye.", "Goodbye!",
      "I have to go.", "See you tomorrow.",
      "Take care."], "Goodbye!"),
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
        place=rng.choice(CITIES), thing=any_word(rng, 0.3), topic=rng.choice(UNKNOWN_TOPICS).strip(),
        animal=rng.choice(ANIMALS), name=any_name(rng), food=rng.choice(FOODS),
        adjective=rng.choice(ADJECTIVES), city=FACTS["city"].draw(rng))
    return Turn(vary(rng, question), "I am a very small model and do not know about that. " + ABILITIES, "unknown")


def story(rng):
    return Turn(*stories.story_turn(rng, vary))


# ---------------------------------------------------------------- dialogues

SYSTEM_PROMPTS = ["You are a helpful assistant.", "You are a helpful assistant.", "You are a friendly assistant.",
                  "You are the demo model of troupe.", "You are a helpful AI assistant. Answer briefly.",
                  "Answer the user's questions.", "Be brief.", "Be concise and helpful.", "You are a chat bot."]

TASKS = {"counting": counting, "spelling": spelling, "reversing": reversing, "repeating": repeating,
         "sorting": sorting, "series": series, "addition": addition, "subtraction": subtraction,
         "conversation": conversation, "unknown": unknown, "limits": too_large, "story": story, "echoing": echoing,
         "multiplication": multiplication}

# How often a turn of each kind is drawn. train.py may be given another mix for each phase.
MIX = {"counting": 20, "spelling": 7, "reversing": 9, "repeating": 7, "sorting": 12, "series": 8, "addition": 12,
       "subtraction": 12, "conversation": 4, "unknown": 3, "limits": 1.5, "story": 1.2, "echoing": 3, "multiplication": 3}


def draw_turn(rng, dialogue, mix, memory_share):
    """The next turn of a training dialogue; memory turns are drawn when the dialogue is to have any."""
    if rng.random() < memory_share:
        if dialogue.facts and rng.random() < 0.6:
            return recall_fact(rng, dialogue, rng.choice(list(dialogue.facts)))
        if rng.random() < 0.08:
            return unknown_fact(rng, dialogue)
        if len(dialogue.facts) < 5 or rng.random() < 0.1:
            return tell_fact(rng, dialogue, draw_kind(rng, FACTS) if rng.random() < 0.1 else None)
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
        questions.append({"category": "conversation", "messages": [{"role": "user",
                         "content": questions_of_intent[0]}],
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
