# SPDX-License-Identifier: Apache-2.0
"""Word lists of the dialogue generator: everything the demo model ever reads is built from these."""

ANIMALS = """cat dog fox bear owl wolf hare mouse frog duck goose horse sheep goat pig cow hen crow eagle whale
seal otter beaver badger lion tiger zebra camel monkey panda turtle snake lizard rabbit squirrel hedgehog donkey
penguin dolphin parrot""".split()

FOODS = """apple pear plum cherry lemon orange banana grape melon peach mango fig bread cheese butter honey rice
soup pizza pasta salad potato carrot onion tomato pepper bean corn cake pie cookie chocolate""".split()

COLORS = """red blue green yellow orange purple pink brown black white gray silver golden violet""".split()

ADJECTIVES = """small big old young happy sad quick slow brave shy kind clever quiet loud warm cold soft hard tall
short bright dark heavy light sweet sour round flat deep new""".split()

THINGS = """lantern key map book bell drum hat coat shoe boat kite clock mirror candle basket bucket ladder hammer
needle button pencil paper letter window door table chair bottle cup spoon knife plate lamp rope ring coin stone
feather flute violin piano guitar wagon wheel engine rocket robot camera radio garden bridge tower castle river
mountain forest island valley desert meadow harbor village market school library kitchen cellar attic winter summer
spring autumn morning evening thunder rain snow wind cloud storm star moon sun planet ocean beach shadow secret
dream story song dance game puzzle riddle number window silence circle square triangle corner middle answer question
teacher doctor farmer sailor baker painter driver pilot singer friend brother sister mother father uncle captain
king queen prince dragon giant wizard pirate ghost knight travel wander follow listen whisper shout jump climb swim
carry build repair collect borrow return forget remember notice wonder begin finish between together almost never
always perhaps suddenly slowly gently under over through beyond""".split()

NAMES = """Ada Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Mia Noah Olga Paul Quinn Rosa Sam Tina Uma
Victor Wendy Xenia Yara Zoe Anna Bruno Carla Dora Erik Fiona George Hanna Ivan Julia Karl Laura Max Nina Oscar Petra
Ralf Sara Tom Ursula Vera Walter Alice Bob Carol Dan Eve Frank John Mary Peter Linda Maria Alex Chris Jordan Robin
Simon Lucy Martin Daniel Sophie Lena Omar Ali Fatima Wei Yuki Ravi Priya Chen Igor""".split()

JOBS = """teacher doctor farmer sailor baker painter driver pilot singer captain knight wizard pirate nurse cook writer
student lawyer gardener dancer waiter builder judge poet""".split()

CITIES = """Paris Rome Berlin London Madrid Vienna Prague Oslo Dublin Athens Lisbon Cairo Tokyo Delhi Lima Boston
Chicago Sydney Moscow Geneva Zurich Hamburg Munich Milan Naples Warsaw Helsinki Toronto Seattle Dallas""".split()

PLACES = ["forest", "village", "valley", "desert", "castle", "harbor", "garden", "meadow", "market", "library",
          "mountains", "swamp"]

TREASURES = ["lantern", "key", "map", "bell", "drum", "kite", "mirror", "ring", "flute", "feather", "book", "coin"]

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December"]

LETTERS = list("abcdefghijklmnopqrstuvwxyz")

COMMON_WORDS = sorted(set(ANIMALS + FOODS + COLORS + ADJECTIVES + THINGS))

ONSETS = """b c d f g h j k l m n p r s t v w z bl br cl cr dr fl fr gl gr pl pr sl sp st tr ch th""".split()
VOWELS = """a e i o u a e i o u ai ea oo ou""".split()
AVOIDED = ["shit", "tit", "cun", "fuc", "fuk", "dic", "dik", "coc", "cok", "nig", "fag", "pis", "slut", "cum", "sex"]
CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "d", "k", "x", "nd", "st", "rn"]

# Kept for measuring (unseen.py): no other list has these, and made_up.py never draws them.
UNSEEN_WORDS = """banjo carpet dentist hotel jacket lobster napkin pillow quartz sandal tunnel velvet walnut zipper blanket
cactus diamond elbow fabric galaxy helmet insect jungle kettle laptop magnet needlework orchard pocket raven saddle
tablet umbrella vinegar whistle yogurt anchor bucketful comet dagger ember falcon gravel hollow igloo jigsaw koala lagoon
marble nectar oyster pebble quiver ribbon salmon tulip urchin vulture willow yacht zebu acorn brush crayon dwarf elm fern
glove hinge ivory jelly kiwi lilac moth noodle otterhound plank quilt rust sponge trophy usher vase wrench""".split()

UNSEEN_NAMES = """Rex Bella Hugo Ingrid Malik Aisha Theo Nadia Otis Greta Milo Stella Jasper Ruby Kofi Amara Dmitri Svetlana
Hiro Sakura Pedro Lucia Sven Astrid Liam Chloe Ethan Hazel Rufus Daisy Felicity Gordon Harriet Ismail Jolene Kurt Leila
Mungo Nigella Orson Phoebe Quentin Rashid Sinead Tobias Umberto Valentin Wilfred Ximena Yusuf Zelda""".split()

UNSEEN_CITIES = """Bergen Leipzig Krakow Porto Seville Lyon Nantes Ghent Malmo Turin Bologna Kyoto Osaka Mumbai Nairobi Lagos
Quito Bogota Denver Austin Portland Calgary Perth Auckland Tallinn Riga Vilnius Zagreb Sofia Cardiff""".split()

# Questions that the model cannot answer; {word} is any word of the lists.
UNKNOWN_TOPICS = """the weather|the news|the stock market|football|politics|history|quantum physics|chemistry|biology
|the moon|black holes|dinosaurs|the French Revolution|Napoleon|Shakespeare|machine learning|the internet|music|poetry
|cooking|love|the meaning of life|philosophy|the stars|computers|money|my car|my homework|the law|medicine|art
|mathematics|geography|religion|sports|movies|the president|my taxes|a recipe|the ocean|evolution|electricity""" \
    .replace("\n", "").split("|")

UNKNOWN_QUESTIONS = """What is the capital of {place}?|Who wrote {thing}?|How does a {thing} work?|Explain {topic}.
|Explain {topic} to me.|Tell me about {topic}.|What do you know about {topic}?|What do you think about {topic}?
|Write a poem about {topic}.|Write a poem about a {thing}.|Write a program that prints a {thing}.
|Write some Python code.|Write an essay about {topic}.|Translate {thing} into French.|What is {topic}?
|What is a {thing}?|Why is the sky blue?|Why is {topic} important?|How do I repair a {thing}?
|Where can I buy a {thing}?
|How much does a {thing} cost?|Who invented the {thing}?|What is the best {thing}?|Do you like {topic}?
|Do you like the {thing}?|Can you help me with {topic}?|Help me with {topic}.|What is the weather like?
|What time is it?|What is the date today?|Who is the president?|How old is the universe?|How tall is the {thing}?
|How far away is the moon?|Is a {thing} bigger than a {animal}?|What does a {animal} eat?|Where do {animal}s live?
|Summarize {topic}.|Give me advice about {topic}.|Recommend a {thing}.|Draw a {animal}.|Sing a song about a {animal}.
|Can you drive a {thing}?|What happened in 1989?|Who won the game?|Play a game with me.|Solve this equation.
|Give me a recipe for {food}.|How do I cook {food}?|How do I make {food} soup?|Tell me a joke.|Tell me a secret.
|What should I do today?|Is it going to rain?|Are you alive?|Do you dream?|Do you have feelings?|I am bored.|I am sad.
|I like {food}.|I want a {thing}.|The {animal} is {adjective}.|{thing}|asdf|xyz|???|Hmm.|I do not understand.
|Who is {name}?|Who was {name}?|Do you know {name}?|Where is {city}?|Is {city} a big city?|What is a {thing} made of?
|Have you ever seen a {animal}?|What is your favorite {thing}?|What color is a {thing}?|Why do {animal}s sleep?
|When was {city} built?
|What is the largest {animal}?|Can {animal}s fly?|Tell me a fact about {city}.|Tell me something about {name}.
|Tell me something interesting.|What do you think?|What is new?|How do I learn to {thing}?
|What is the difference between a {thing} and a
 {animal}?|Who is the king of {city}?|Which is better, {food} or {food}?|How many {animal}s are there?
|How many days are in a year?
|Explain how a {thing} works.|How do computers work?|Write a letter to {name}.|Write a song.
|Write a haiku about {topic}.
|Write a function that sorts a list.|Fix this code.|Translate this into German.|Translate {thing}.
|How do you say {thing} in Spanish?
|What is the meaning of {thing}?|What is the square root of 16?|What is pi?|Is it true that {animal}s eat {food}?
|Buy me a {thing}.
|Open the door.|Call {name}.|Send a message to {name}.|Turn on the light.|Set an alarm.|What year is it?
|What day is it today?
|Where are you?|Where do you live?|How old are you?|Do you sleep?|Do you have a {thing}?|Can you see me?
|Can you dance?|Can you draw?
|Can you speak French?|Do you speak German?|Are you smart?|Do you love me?|Will you marry me?|I love you.
|I hate {food}.|You are stupid.
|I am tired.|I am hungry.|I am happy.|It is cold today.|The weather is nice.|{name} is a {animal}.
|{thing} {thing} {thing}|lol|Really?
|Why?|How?|What?|When?|Are you sure?|Because.|Maybe.|I think so.|I do not know.|What is {thing}?|What is {name}?
|Is {name} a {thing}?
|What does {thing} mean?|Define {thing}.|How many people live in {city}?|How do I get to {city}?
|What is {city} like?"""\
    .replace("\n", "").split("|")
