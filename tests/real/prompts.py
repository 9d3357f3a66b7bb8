"""What tests/references/record_real.py asked the model of `make real`: texts that it goes on with, questions of a chat, and a
text whose probability it gives."""

TEXTS = [
    "Once upon a time, there was a little",
    "The capital of France is",
    "Water boils at a temperature of",
    "The three primary colors are",
    "def fibonacci(n):\n    \"\"\"The n-th Fibonacci number.\"\"\"\n",
    "#include <stdio.h>\n\nint main(void)\n{\n",
    "SELECT name, price FROM products WHERE",
    "{\"name\": \"Alice\", \"age\": 30, \"city\":",
    "1, 2, 3, 4, 5, 6,",
    "2 + 2 = 4\n3 + 3 = 6\n4 + 4 =",
    "To make a cup of tea, first",
    "Dear Sir or Madam,\n\n",
    "# Introduction\n\nMachine learning is",
    "The mitochondria is the",
    "In 1969, the first human",
    "Il était une fois une",
    "Es war einmal ein",
    "Había una vez un",
    "The opposite of hot is",
    "Roses are red,\nviolets are blue,\n",
    "Q: Who wrote Hamlet?\nA:",
    "Monday, Tuesday, Wednesday,",
    "<html>\n<head>\n<title>",
    "The largest planet in the solar system",
    "She opened the door and saw",
]

QUESTIONS = [
    "What is the capital of France?",
    "Who are you?",
    "What is 7 times 8?",
    "Name three fruits.",
    "Write a haiku about the sea.",
    "Explain gravity to a child in one sentence.",
    "Translate 'good morning' into French.",
    "What is the boiling point of water?",
    "Write a Python function that adds two numbers.",
    "List the planets of the solar system.",
    "What is a transformer in machine learning?",
    "Give me a synonym for happy.",
    "How many days are in a leap year?",
    "Who painted the Mona Lisa?",
    "What color do you get if you mix blue and yellow?",
    "Summarize: The cat sat on the mat and looked out of the window at the birds.",
    "Is the sun a star?",
    "What is the past tense of go?",
    "Write one sentence about dogs.",
    "How do I boil an egg?",
    "What does CPU stand for?",
    "Tell me a joke.",
    "What is the largest ocean?",
    "Convert 10 kilometers to miles.",
    "Spell the word 'necessary'.",
]

EVAL_TEXT = """A lighthouse stands at the end of the pier. Every evening the keeper climbs the ninety-one steps, trims the
wick, and lights the lamp. In winter the waves reach the lower windows, and he counts the seconds between two of them to
learn how far off the storm is. He has written the numbers down for thirty years, in blue notebooks that nobody reads.
Last spring a student came to ask for them: the sea, she said, had changed, and his notebooks were the only record.
"""
