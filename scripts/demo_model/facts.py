# SPDX-License-Identifier: Apache-2.0
"""What a user may tell and ask about himself: the forms of each statement and question, and the model's answers."""

from dataclasses import dataclass

from made_up import made_up_word
from words import CITIES, COLORS, COMMON_WORDS, FOODS, JOBS, MONTHS, NAMES

MAX_NUMBER = 120


@dataclass
class Fact:
    draw: object  # function of a random generator: a value
    statements: list
    acknowledgement: str
    questions: list
    recalled: str
    missing: str  # the answer while nothing was told
    weight: float = 3.0


def any_name(rng):
    return rng.choice(NAMES) if rng.random() < 0.45 else made_up_word(rng).capitalize()


def listed_or_made_up(words, listed_share):
    return lambda rng: rng.choice(words) if rng.random() < listed_share else made_up_word(rng)


FACTS = {
    "name": Fact(
        any_name,
        ["My name is {v}.", "My name is {v}.", "I am {v}.", "I am {v}.", "I'm {v}.", "I am called {v}.",
         "Hi, I am {v}.",
         "Hello, my name is {v}.", "You can call me {v}.", "Call me {v}.", "Call me {v}.", "Please call me {v}.",
         "They call me {v}.", "My friends call me {v}.", "This is {v}.", "It's {v}.", "{v} is my name.",
         "My name's {v}.",
         "{v} here.", "Hi, it is {v}.", "My first name is {v}.", "The name is {v}.", "I am named {v}.",
         "Just call me {v}."],
        "Nice to meet you, {v}.",
        ["What is my name?", "What is my name?", "Who am I?", "Do you remember my name?", "What am I called?",
         "Tell me my name.", "What's my name?", "Do you know my name?", "Do you know who I am?", "Say my name.",
         "What was my name?", "Can you tell me my name?", "And my name?", "Which name did I tell you?"],
        "Your name is {v}.", "You have not told me your name.", 4.0),
    "number": Fact(
        lambda rng: str(rng.randint(0, MAX_NUMBER if rng.random() < 0.8 else 199)),
        ["Remember the number {v}.", "Please remember the number {v}.", "Keep the number {v} in mind.",
         "The secret number is {v}.", "My number is {v}.", "The number is {v}.", "Remember {v}.",
         "Remember this number: {v}.",
         "My lucky number is {v}.", "My favorite number is {v}.", "Here is a number: {v}.",
         "Don't forget the number {v}."],
        "I will remember the number {v}.",
        ["What number did I tell you?", "What is the number?", "Which number did I ask you to remember?",
         "What was the number?", "What is the secret number?", "Do you remember the number?", "Tell me the number.",
         "Do you know the number?", "What is my number?", "Which number was it?", "What number was it?"],
        "The number is {v}.", "You have not told me a number."),
    "word": Fact(
        listed_or_made_up(COMMON_WORDS, 0.35),
        ["Remember the word {v}.", "The secret word is {v}.", "The password is {v}.", "Keep the word {v} in mind.",
         "My word is {v}.", "The word is {v}.", "Remember this word: {v}.", "My password is {v}.",
         "Here is a word: {v}.",
         "Don't forget the word {v}.", "Please remember the word {v}.", "The magic word is {v}.",
         "The code word is {v}."],
        "I will remember the word {v}.",
        ["What is the word?", "What word did I tell you?", "What is the secret word?", "What was the word?",
         "Which word did I ask you to remember?", "What is the password?", "Tell me the word.", "What is my word?",
         "Do you remember the word?", "Which word was it?", "What was the secret word?", "What word was it?"],
        "The word is {v}.", "You have not told me a word."),
    "color": Fact(
        listed_or_made_up(COLORS, 0.6),
        ["My favorite color is {v}.", "I like the color {v} best.", "My favourite color is {v}.",
         "The color I like best is {v}.", "I love the color {v}.", "{v} is my favorite color.", "I like {v} best.",
         "My favourite colour is {v}.", "The best color is {v}."],
        "I will remember that your favorite color is {v}.",
        ["What is my favorite color?", "Which color do I like best?", "What color do I like?",
         "What color do I like best?",
         "Do you remember my favorite color?", "What's my favorite color?", "Tell me my favorite color.",
         "Which color is my favorite?", "What is my favourite colour?"],
        "Your favorite color is {v}.", "You have not told me your favorite color."),
    "food": Fact(
        listed_or_made_up(FOODS, 0.6),
        ["My favorite food is {v}.", "I like to eat {v}.", "I love to eat {v}.", "I eat {v} every day.",
         "I love eating {v}.",
         "I like eating {v}.", "My favourite food is {v}.", "The food I like best is {v}.", "I often eat {v}."],
        "I will remember that you like {v}.",
        ["What is my favorite food?", "What do I like to eat?", "Which food do I like?", "What food do I like?",
         "What do I eat?", "What's my favorite food?", "Do you remember what I like to eat?",
         "Tell me my favorite food."],
        "You like {v}.", "You have not told me what you like to eat."),
    "city": Fact(
        lambda rng: rng.choice(CITIES) if rng.random() < 0.5 else made_up_word(rng).capitalize(),
        ["I live in {v}.", "My home is in {v}.", "I am from {v}.", "I come from {v}.", "I'm from {v}.",
         "My city is {v}.",
         "I moved to {v}.", "My house is in {v}.", "My home town is {v}.", "I am living in {v}."],
        "I will remember that you live in {v}.",
        ["Where do I live?", "Which city do I live in?", "In which city do I live?", "Where am I from?",
         "What is my city?",
         "Where do I come from?", "Where is my home?", "Do you remember where I live?", "What city do I live in?",
         "Do you know where I live?", "Tell me where I live."],
        "You live in {v}.", "You have not told me where you live."),
    "pet": Fact(
        any_name,
        ["My pet is called {v}.", "My pet's name is {v}.", "I have a pet called {v}.", "I have a pet named {v}.",
         "The name of my pet is {v}.", "My pet is named {v}.", "{v} is my pet.", "We call our pet {v}."],
        "I will remember that your pet is called {v}.",
        ["What is my pet called?", "What is the name of my pet?", "What is my pet's name?", "What's my pet called?",
         "Do you remember my pet?", "How is my pet called?", "Who is my pet?"],
        "Your pet is called {v}.", "You have not told me about a pet.", 2.0),
    "age": Fact(
        lambda rng: str(rng.randint(5, 99)),
        ["I am {v} years old.", "My age is {v}.", "I'm {v} years old.", "I turned {v} today.", "I am {v} now.",
         "I just turned {v}.",
         "I am aged {v}."],
        "I will remember that you are {v} years old.",
        ["How old am I?", "What is my age?", "Do you know how old I am?", "What's my age?", "Do you remember my age?",
         "Tell me my age.", "Do you remember how old I am?"],
        "You are {v} years old.", "You have not told me your age."),
    "job": Fact(
        lambda rng: rng.choice(JOBS),
        ["I am a {v}.", "I work as a {v}.", "My job is {v}.", "I'm a {v}.", "I am working as a {v}.",
         "I became a {v}."],
        "I will remember that you are a {v}.",
        ["What is my job?", "What do I do?", "What is my work?", "What do I work as?", "Do you remember my job?"],
        "You are a {v}.", "You have not told me your job.", 1.5),
    "birthday": Fact(
        lambda rng: rng.choice(MONTHS),
        ["My birthday is in {v}.", "I have my birthday in {v}.", "My birthday is next {v}."],
        "I will remember that your birthday is in {v}.",
        ["When is my birthday?", "In which month is my birthday?", "Do you remember my birthday?",
         "When do I have my birthday?"],
        "Your birthday is in {v}.", "You have not told me your birthday.", 1.5),
}

# Whoever has a name besides the user and "my pet".
NAMED = "dog cat horse rabbit parrot bird fish hamster turtle goat brother sister mother father friend son daughter " \
        "teacher boss neighbor uncle cousin wife husband doctor boat car".split()

for noun in NAMED:
    FACTS[noun] = Fact(
        any_name,
        [f"My {noun} is called {{v}}.", f"My {noun} is called {{v}}.", f"My {noun}'s name is {{v}}.",
         f"I have a {noun} called {{v}}.",
         f"I have a {noun} named {{v}}.", f"The name of my {noun} is {{v}}.", f"My {noun} is named {{v}}.",
         f"{{v}} is my {noun}.", f"{{v}} is the name of my {noun}.", f"I call my {noun} {{v}}.",
         f"We call our {noun} {{v}}.",
         f"Our {noun} is called {{v}}."],
        f"I will remember that your {noun} is called {{v}}.",
        [f"What is my {noun} called?", f"What is the name of my {noun}?", f"What is my {noun}'s name?",
         f"What's my {noun}'s name?",
         f"How is my {noun} called?", f"Do you remember the name of my {noun}?", f"Who is my {noun}?",
         f"Do you know my {noun}'s name?", f"What was the name of my {noun}?", f"Tell me the name of my {noun}."],
        f"Your {noun} is called {{v}}.", f"You have not told me about a {noun}.", 0.45)

OPENINGS = ["Hi, ", "Hello, ", "Hey, ", "By the way, ", "Remember that ", "Please remember that ",
            "Just so you know, ", "Well, ",
            "So, ", "Listen: ", "You should know that ", "I want you to know that ", "Don't forget that ",
            "Now remember: "]
CLOSINGS = [" Remember that.", " Please remember it.", " Don't forget it.", " Ok?", " Got it?",
            " Can you remember that?",
            " Keep that in mind.", " Nice to meet you.", " And you?"]


def starts_with_a_name(statement):
    return statement.startswith(("I ", "I'", "{v}"))


def word_statement(rng, fact):
    """One form of telling the fact, with {v} for its value."""
    statement = rng.choice(fact.statements)
    if rng.random() < 0.15 and not statement.startswith(("Hi", "Hello", "Please", "Remember", "Don't", "Keep")):
        first = statement if starts_with_a_name(statement) else statement[0].lower() + statement[1:]
        statement = rng.choice(OPENINGS) + first
    if rng.random() < 0.1:
        statement += rng.choice(CLOSINGS)
    return statement
