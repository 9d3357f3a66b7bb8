#!/usr/bin/env python3
"""Grammars in GBNF of the kinds that llama.cpp's documentation shows (lists, arithmetic, JSON, a little C, chess, Japanese), written
anew: what `tblock constrain` accepts of each and what it refuses, byte by byte and, with the shipped model's vocabulary, by masks.
Among them are ambiguous ones, left recursion, and rules that may be empty. Prints "ok NAME" or "FAIL NAME: why". $TBLOCK is the
program."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]
from verdicts import attempt, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))

# name: (grammar, texts that fit, texts that do not)
GRAMMARS = {
    "a list": (r"""
root ::= item+
# no line may be empty
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
""", ["- eggs\n", "- eggs\n- more eggs, and ham\n", "- \u6f22\u5b57 \U0001f600\n", "- - x\n"],
              ["", "- \n", "eggs\n", "- eggs", "- a\n\n- b\n", "- a\u2028b\n", "-eggs\n"]),
    "arithmetic": (r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
""", ["x=1\n", "1+2*3=7\n", "(a +b1_c)\t*2 = c\n", "1=1\n2=2\n", "((((1))))=1\n", "x =y\n\n"],
                   ["x=\n", "1+=2\n", "1=1", "(1=1\n", "1)=1\n", "-1=1\n", "1=1+1\n", "X=1\n", "1+ 1=1\n"]),
    "left recursion": (r"""
root    ::= sum
sum     ::= sum ws [-+] ws product | product
product ::= product ws [*/] ws power | power
power   ::= unary ws "^" ws power | unary
unary   ::= "-" unary | [0-9]+ | "(" ws root ws ")"
ws      ::= " "?
""", ["1", "1+2*3^4^5", "--1 - -(2)", "(1 + 2) * 3", "1-1-1-1-1-1-1-1"], ["", "1+", "*1", "1 +  2", "(1", "1 2", "1^"]),
    "every reading": (r"""
root ::= s
s ::= s s | "(" s ")" | "a"? | other
other ::= s | "b" s
""", ["", "a", "aaaaaaaaaaaaaaaaaaaaaaaa", "(((a)(b)))", "bbb(a)a"], ["c", "(", "a)", "(a"]),
    "JSON": (r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
""", ["{}", '{"a": [1, -2.5e+3, "\\u00e9\\n", {"b":null}]}', "{\"\u6f22\": true}\n\t\t", '{"a":0.5}', '{"a":[[[[]]]]}'],
             ["[]", "{", '{"a"}', '{"a": 01}', '{"a": .5}', '{"a": "\n"}', '{"a": 1,}', '{"a": "\\x"}', "{}  ", '{"a": tru}']),
    "a little C": (r"""
root ::= (declaration)*
declaration ::= type identifier "(" parameter? ("," ws parameter)* ")" "{" statement* "}"
type ::= ("int" | "float" | "char") " "
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= type identifier
statement ::=
    ( type identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( identifier ws "(" arguments? ")" ";" ) |
    ( "return" " " expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" ) |
    ( "if" "(" condition ")" "{" statement* "}" ("else" "{" statement* "}")? ) |
    ( "//" [^\n]* "\n" ) |
    ( "/*" ( [^*] | ("*"+ [^*/]) )* "*"+ "/" )
condition ::= expression ("==" | "!=" | "<" | "<=" | ">=" | ">") expression
expression ::= term (ws [-+] ws term)*
term ::= factor (ws [*/] ws factor)*
factor ::= identifier | number | unary | identifier "(" arguments? ")" | "(" ws expression ws ")"
unary ::= "-" factor
arguments ::= expression ("," ws expression)*
number ::= [0-9]+
ws ::= [ \t\n]*
""", ["", "int f(){}", "int f(int a, float b){int c = a*(b - 1);return c;}int g(){f(1, 2);}",
      "char m(){while(i<=10){i = -i;if(a==b){x=1;}else{/* **/// *\n}}}", "int returned(){returned(returned);}"],
                   ["int f()", "int f(){", "f(){}", "int f(){return 1}", "int 1f(){}", "int f(){/* }", "double f(){}", "int f(){a==b;}"]),
    "chess": (r"""
root     ::= ("1. " move " " move "\n") ([1-9] [0-9]? ". " move " " move "\n")+
move     ::= (pawn | piece | castling) [+#]?
piece    ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn     ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBQR])?
castling ::= "O-O" "-O"?
""", ["1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n2. c4 dxc4\n3. Nbd2 O-O-O\n10. exd8=Q+ Rxd8#\n"],
              ["1. e4 e5\n", "2. e4 e5\n3. d4 d5\n", "1. e4\n2. d4 d5\n", "1. e9 e5\n2. d4 d5\n", "1. O-O-O-O e5\n2. d4 d5\n"]),
    "Japanese": ("""
# a text, or several apart by white space
root     ::= jp-char+ ([ \\t\\n] jp-char+)*
jp-char  ::= hiragana | katakana | punctuation | cjk
hiragana ::= [ぁ-ゟ]
katakana ::= [ァ-ヿ]
punctuation ::= [、-〾]
cjk      ::= [一-鿿]
""", ["こんにちは", "東京、カタカナ。\n二つ目", "ー"], ["", "hello", "東京 ", " 東京", "東京  東京", "東a", "\uac00"]),
    "counts and escapes": (
        "root ::= ([a-c]{2} | \"\\x41\\u00e9\\U0001F600\"){2,3} end?\nend ::= \"\\\"\" [\\]\\[\\\\^-]{1,} | .{3}\n",
        ["abca", "A\u00e9\U0001f600cc", "abcabc\"]-^[\\", "aabb\u6f22\n.", "aaaaaa"],
        ["ab", "abc", "abcd", "aaaaaaaa", "aaaa\"", "A\u00e9aa", "aabb\u6f22\n"]),
}

# grammar: what the message says
REFUSED = {
    "root ::= item\n": "1:10: this rule is not defined",
    "item ::= \"a\"\n": "expected a rule root",
    "root ::= \"a\" root\n": "no text fits",
    "root ::= a\na ::= \"x\"\na ::= \"y\"\n": "3:1: this rule is defined already",
    "root ::= \"a\n": "1:10: expected a second quote",
    "root ::= [z-a]\n": "1:11: expected a range",
    "root ::= \"a\"{3,2}\n": "1:13: expected {m,n} with m at most n",
    "root ::= (\"a\" | \"b\"\nx ::= \"y\"\n": "1:10: expected ) after this (",
    "root ::= \"a\" )\n": "1:14: expected a symbol or the end of the line",
    "root ::= *\n": "1:10: expected something to repeat",
    "root ::= <think> \"a\"\n": "1:10: tokens",
    "root ::= \"\\q\"\n": "1:11: unknown escape",
    "root = \"a\"\n": "1:6: expected ::=",
}


def constrain(grammar, texts, *model):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".gbnf") as f:
        f.write(grammar)
        f.flush()
        return subprocess.run([TBLOCK, "constrain", *model, "--grammar", f.name, "--jsonl", "-"], capture_output=True,
                              input="".join(json.dumps(text) + "\n" for text in texts).encode())


def grammar_says_what_fits(name):
    grammar, good, bad = GRAMMARS[name]
    for model in ([], [str(ROOT / "models" / "shakespeare.bin")]):
        p = constrain(grammar, good + bad, *model)
        need(p.returncode == 0, p.stderr.decode(errors="replace"))
        answers = [line == b"true" for line in p.stdout.split()]
        wrong = [t for t, answer in zip(good, answers) if not answer] + [t for t, answer in zip(bad, answers[len(good):]) if answer]
        need(len(answers) == len(good + bad) and not wrong, "%s: wrong about %r" % (model or "bytes", wrong))


def what_is_no_grammar_is_refused():
    for grammar, words in REFUSED.items():
        p = constrain(grammar, ["a"])
        need(p.returncode == 3 and not p.stdout and words in p.stderr.decode(), "%r: status %d, %s" % (
            grammar, p.returncode, p.stderr.decode(errors="replace")))


def main():
    failed = [attempt("texts of a grammar: " + name, grammar_says_what_fits, name) for name in GRAMMARS]
    return any(failed + [attempt("what is no grammar is refused", what_is_no_grammar_is_refused)])


if __name__ == "__main__":
    sys.exit(main())
