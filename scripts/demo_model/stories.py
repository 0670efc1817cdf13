# SPDX-License-Identifier: Apache-2.0
"""A small story grammar. A story follows from five slots: hero's name, animal, place, treasure and number of parts.
What the prompt leaves open is drawn at random; `slots_of` reads it back from a story, so that every story can be
checked."""

import re

from facts import any_name
from made_up import made_up_word
from words import ADJECTIVES, ANIMALS, COMMON_WORDS, NAMES, PLACES, TREASURES

OPENING = "Once upon a time there was a {animal} called {name}. {name} lived near the {place} and dreamed of a golden {thing}."
PARTS = [
    "{name} packed some bread and walked to the {place}.",
    "On the way {name} met an old owl. The owl said: look for the {thing} under a round stone.",
    "It began to rain, and the {animal} waited in a warm cave until the sun came back.",
    "{name} found a round stone, but there was only a letter under it.",
    "The letter said: the {thing} is not in the {place}, it is across the river.",
    "A kind beaver built a bridge, and {name} thanked him with bread.",
    "Across the river lived a giant. He was not angry, only lonely.",
    "The {animal} and the giant sang songs all night and became friends.",
    "In the morning the giant gave {name} a small box made of silver.",
    "{name} opened the box slowly. In it was the golden {thing}!",
    "{name} carried the {thing} home, and everybody in the {place} came to see it.",
    "From that day on, the {animal} and the giant had breakfast together every Sunday.",
]
ENDING = "That is the story of {name} the {animal}. The end."
SHORT = "{name} looked for it all day, found it under a stone in the {place}, and went home happy."


def write_story(name, animal, place, thing, num_parts):
    slots = {"name": name, "animal": animal, "place": place, "thing": thing}
    lines = [OPENING.format(**slots)]
    if num_parts == 0:
        lines.append(SHORT.format(**slots))
    lines += [f"Part {i + 1}. " + PARTS[i].format(**slots) for i in range(num_parts)]
    lines.append(ENDING.format(**slots))
    return "\n".join(lines)


def slots_of(text):
    """Name, animal, place, treasure and number of parts of a story; None if it is not one of this grammar."""
    match = re.match(r"Once upon a time there was a (\w+) called (\w+)\. \w+ lived near the (\w+) and dreamed of a "
                     r"golden (\w+)\.", text)
    if not match:
        return None
    animal, name, place, thing = match.groups()
    slots = (name, animal, place, thing, len(re.findall(r"^Part \d+\. ", text, re.MULTILINE)))
    return slots if slots[4] <= len(PARTS) and write_story(*slots) == text else None


def draw_slot(rng, words, told):
    """A word of the slot's own list or, if the prompt tells it, of any list or of none. It follows "a", so it begins with
    a consonant."""
    while True:
        shape = rng.random() if told else 0.0
        word = rng.choice(words) if shape < 0.5 else rng.choice(COMMON_WORDS) if shape < 0.65 else made_up_word(rng)
        if word[0] not in "aeiou":
            return word


def story_turn(rng, vary):
    """User text, answer, category and key. Only fully told prompts are category `story` and can be held out."""
    told = rng.random() < 0.75
    animal_told = told or rng.random() < 0.5
    name = any_name(rng) if animal_told else rng.choice(NAMES)
    animal, place = draw_slot(rng, ANIMALS, animal_told), draw_slot(rng, PLACES, told)
    thing = draw_slot(rng, TREASURES, told)
    num_parts = rng.choice([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    length = {0: "short story", len(PARTS): "long story"}.get(num_parts, f"story in {num_parts} parts")
    if num_parts == 1:
        length = "story in 1 part"
    if told:
        user = rng.choice([f"Tell me a {length} about {name} the {animal}, the {place} and the golden {thing}.",
                           f"Write a {length} about a {animal} called {name}, the {place} and a golden {thing}.",
                           f"Write a {length} about {name} the {animal} who looks for a golden {thing} near the {place}."])
        return vary(rng, user), write_story(name, animal, place, thing, num_parts), "story", \
            f"story {name} {animal} {place} {thing} {num_parts}"
    about_animal = [f"Tell me a {length} about a {animal}.", f"Tell me a {length} about {name} the {animal}.",
                    f"Write a {length} about a {animal} called {name}.", f"Write a {length} about a {animal}."]
    about_nothing = [f"Tell me a {length}.", f"Write a {length}.", f"Tell me a {rng.choice(ADJECTIVES)} {length}.",
                     f"I want to hear a {length}."]
    user = rng.choice(about_animal if animal_told else about_nothing)
    if num_parts == 0 and rng.random() < 0.5:
        user = user.replace("short story", "story")
    return vary(rng, user), write_story(name, animal, place, thing, num_parts), "story_open", None
