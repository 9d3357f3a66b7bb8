#!/usr/bin/env python3
"""What transformers' own template environment renders, for tests/text/test_jinja.py: the recorded answers of tests/data/jinja.jsonl.

    record_jinja.py                  render all snippets below and write tests/data/jinja.jsonl, and digests of what the templates of
                                     $TBLOCK_TEST_DATA make of tests/text/jinja_conversations.py: tests/data/jinja_conversations.json
    record_jinja.py --random N       compare N random snippets with what tblock renders ($BUILD/tests/text/jinja_tool), print what differs
    record_jinja.py --templates FOLDER   compare the conversations for each *.jinja in FOLDER

Needs jinja2 and transformers (without torch). A snippet that Python refuses is recorded as an error; the message is our own.
"""
import importlib.metadata
import json
import os
import pathlib
import random
import sys

from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text")]
from jinja_conversations import CONVERSATIONS  # noqa: E402
from test_jinja import OWN, Tool, digest, templates  # noqa: E402

ANSWERS = ROOT / "tests" / "data" / "jinja.jsonl"

DATA = {
    "a": 1, "b": -7, "f": 2.5, "t": True, "n": None, "s": "Hello, World", "u": "Grüße, 世界 🙂é", "e": "", "l": [3, 1, 2], "w": "  a b\tc \n",
    "d": {"x": 1, "items": 2, "y": {"z": [1, {"q": "deep"}]}}, "q": "it's \"so\"", "m": [["a", 1], ["b", 2]], "nl": "one\ntwo\n\nthree\n",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.0, "y": "ü"}}}]}],
    "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {"k": {"type": "string"}}}}}],
    "words": ["Banana", "apple", "Cherry", "banana"], "people": [{"n": "B", "a": 2}, {"n": "a", "a": 1}, {"n": "b", "a": 2}],
}

SNIPPETS = r"""
plain text
{{ a }}{{ b }} {{ f }} {{ t }} {{ n }} {{ missing }}
{{ s }} {{ u }} {{ l }} {{ d }} {{ m }} {{ q }} {{ [q, s, u] }}
{{ a + 1 }} {{ a - 2 }} {{ b // 2 }} {{ b % 3 }} {{ b / 2 }} {{ 7 // -2 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }}
{{ -2 ** 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 10 / 4 }} {{ 10 / 5 }} {{ +a }} {{ -f }} {{ --a }} {{ t + t }} {{ 1.0 + t }}
{{ 1 ~ 2 ~ 'x' ~ n ~ missing ~ 1.5 }} {{ 'a' + 'b' * 3 }} {{ 2 * 'ab' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ [0] * 3 }} {{ 'x' * -1 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ t == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) == [1] }} {{ n == none }} {{ missing == other }} {{ 1 != 2 }} {{ 'é' > 'z' }}
{{ 1 in l }} {{ 9 not in l }} {{ 'x' in d }} {{ 'ell' in s }} {{ 'z' in missing }} {{ not a }} {{ not 1 in l }} {{ a and b }} {{ n or 'x' }} {{ e or 0 or [] }} {{ 1 and 0 }}
{{ 'y' if a else 'n' }} {{ 'y' if n else 'n' }} {{ 'y' if n }} {{ 1 if 0 else 2 if 0 else 3 }}|{{ ('x' if n) is defined }}
{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-9:9] }} {{ s[1:4] }} {{ s[::-1] }} {{ u[0] }}{{ u[2] }}{{ u[-1] }} {{ u[1:9:3] }} {{ 'abc'[-2:] }} {{ (1, 2, 3)[1:] }}
{{ d.x }} {{ d['x'] }} {{ d['items'] }} {{ d.y.z[1].q }} {{ d.y['z'].0 }} {{ d.nothing }} {{ l.0 }} {{ s.nope }} {{ s[0].upper() }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.get('x') }} {{ d.get('zz') }} {{ d.get('zz', 5) }}
{{ d.update is defined }} {{ l.append is defined }} {{ s.__class__ }} {{ s.__class__ is defined }} {{ d.pop('x') }}
{{ l.append(4) }}
{{ missing.x }}
{{ missing.x is defined }}
{{ missing + 1 }}
{{ missing() }}
{{ n.x }} {{ n.x is defined }}
{{ n.x.y }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 1 < 'a' }}
{{ 1 // 0 }}
{{ [1] < 2 }}
{{ raise_exception('no ' ~ a) }}
{{ strftime_now is defined }}
{{ strftime_now('%Y') }}
{% for x in l %}{{ x }},{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{{ loop.cycle('odd', 'even') }}{{ loop.changed(x > 1) }} {% endfor %}
{% for x in [] %}x{% else %}none{% endfor %} {% for x in missing %}x{% else %}none{% endfor %} {% for x in l %}{% break %}{% else %}none{% endfor %}|
{% for x in n %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for c in u %}[{{ c }}]{% endfor %} {% for (k, v) in m %}{{ k }}{{ v }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [(1,)] %}{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }} {% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }} {% endfor %} {% for x in l if x > 9 %}{{ x }}{% else %}empty{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% elif x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1, [2, [3, 4]], 5] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in l %}{{ loop([1]) }}{% endfor %}
{% set ns = namespace(on=true) %}{% for x in [1, 2, 3, 4] if ns.on %}{{ x }}{% if x == 2 %}{% set ns.on = false %}{% endif %}{% endfor %}
{% set ns = namespace(on=true) %}{% for x in [1, 2, 3, 4] if ns.on %}{{ x }}{{ loop.last }}{% if x == 2 %}{% set ns.on = false %}{% endif %}{% endfor %}
{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}{{ loop }}
{% for x in l %}{% set z = x %}{% endfor %}{{ z }}|{% set z = 0 %}{% for x in l %}{% set z = z + x %}{{ z }}{% endfor %}{{ z }}
{% if a %}1{% elif b %}2{% else %}3{% endif %}{% if n %}1{% elif b %}2{% else %}3{% endif %}{% if n %}1{% elif e %}2{% else %}3{% endif %}{% if n %}1{% endif %}
{% if missing %}x{% endif %}{% if l %}l{% endif %}{% if [] %}x{% endif %}{% if 0.0 %}x{% endif %}{% if d %}d{% endif %}{% if 'x' %}s{% endif %}{% if range(0) %}x{% endif %}
{% if a %}{% set k = 5 %}{% endif %}{{ k }}{% set x, y = 1, 2 %}{{ x }}{{ y }}{% set (x, y) = [3, 4] %}{{ x }}{{ y }}{% set z = 1, %}{{ z }}{% set p = (1, 2) %}{{ p }}
{% set x %}a{{ a }}b{% endset %}[{{ x }}]{% set x | upper | replace('A', 'z') %}a{{ a }}b{% endset %}[{{ x }}]
{% set ns = namespace(x=1, y=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns }}{{ ns.q }}{{ ns.q is defined }}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns = namespace() %}{% set ns.k %}t{% endset %}{{ ns.k }}
{% set l.x = 1 %}
{% set q.x = 1 %}
{% macro m(x, y=2, z='q') %}[{{ x }}{{ y }}{{ z }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, z=5) }}{{ m() }}{{ m(y=1, x=2) }}{{ m }}
{% macro m(x) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(x) %}{% endmacro %}{{ m(q=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }}
{% macro m(x) %}{{ x }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(*[4, 5]) }}
{% macro m(x, y) %}{{ x }}{{ y }}{% endmacro %}{{ m(**{'x': 1, 'y': 2}) }}{{ m(1, **{'y': 3}) }}
{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}
{% macro fact(n) %}{% if n < 2 %}1{% else %}{{ n * fact(n - 1) | int }}{% endif %}{% endmacro %}{{ fact(10) }}
{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 5 %}{{ g }}{% endmacro %}{{ m() }}{% set g = 2 %}{{ m() }}{{ g }}
{% macro wrap() %}<{{ caller() }}>{% endmacro %}{% call wrap() %}in{{ a }}{% endcall %}
{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, i=0) each(l) %}({{ x }}:{{ i }}){% endcall %}
{% macro m() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}
{% filter upper %}a{{ s }}{% endfilter %}{% filter trim | replace('a', 'b') %}  aa {% endfilter %}|
{% with x = 1, y = 2 %}{{ x }}{{ y }}{% set x = 5 %}{{ x }}{% endwith %}{{ x }}{% with %}{% set i = 1 %}{{ i }}{% endwith %}{{ i }}
{% set x = 3 %}{% with x = 4, y = x %}{{ x }}{{ y }}{% endwith %}
{% raw %}{{ not }} {% if %}{% endraw %}|{% raw -%}  x {%- endraw %}|
{# comment #}a{#- c -#} b {#+ c #} c{# {{ x }} #}
{% generation %}g{{ a }}{% set in = 1 %}{% endgeneration %}{{ in }}{{ out }}
{% print a, 'b' %}{% print s %}
  {% if a %}\n  x\n  {% endif %}\n  y {% if a %} z {% endif %}\nend
a\n  {%- if a -%}  \n  x  \n {%- endif -%} \n  y
a\n  {%+ if a +%}\n  x\n  {%+ endif %}\nb
  {{ a }}\n  {{- a -}}  \n  {{ a }}\n\n{{ a }}\n
  {# c #}\n  x {# c #}\ny{# c -#}  \n z
\n\n  {% set x = 1 %}  \n\n  {{ x }}\n
{% for x in l %}\n- {{ x }}\n{% endfor %}\n\nend\n\n
{%- if true -%} a {%- endif -%} \t {{ 'b' }}  \r\n{% if true %}\r\nc\r{% endif %}
{{ 'a\nb\tc\\d\'e\"f\x41\u00e9\U0001F600\101\q' }} {{ "it's" }} {{ 'a' 'b' "c" }} {{ '''x''' }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1_0.5 }} {{ 1E5 }} {{ 123456789012345678 }} {{ 1e16 }} {{ 1e22 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100000.0 }} {{ 123456.789e3 }} {{ -0.0 }} {{ 1e300 * 1e10 }} {{ 5e-324 }}
{{ [1, 'a', none, true, 1.5, [2], (3,), (), {'k': 'v'}, {}] }} {{ {'a': 1, 2: 'b', none: 3, true: 4, 'a': 5} }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}
{{ ['a\'b', 'a"b', 'a\'"b', 'a\nb\t\\', 'é\x07\x7f\u200b\u00a0'] }}
{{ {[1]: 2} }}
{{ d[[1]] }} {{ d[{}] }} {{ 1[0] }} {{ s['x'] }} {{ l['x'] }} {{ l[none] }} {{ l[true] }}
{{ range(3) }} {{ range(1, 3) }} {{ range(5, 1, -2) }} {{ range(5) | list }} {{ range(5, 1, -2) | list }} {{ range(3)[1] }} {{ 2 in range(3) }} {{ range(5) | length }} {{ range(3) == range(0, 3, 1) }}
{{ range(100001) }}
{{ range(1000000000) | list }}
{{ dict(a=1, b=2) }} {{ dict([['a', 1]]) }} {{ dict({'x': 1}, y=2) }} {{ dict() }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }} {% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{{ a is defined }} {{ zz is undefined }} {{ n is none }} {{ a is odd }} {{ b is even }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ s is string }} {{ l is sequence }} {{ l is iterable }} {{ 5 is iterable }} {{ d is mapping }} {{ a is number }} {{ t is number }} {{ a is integer }} {{ t is integer }} {{ f is float }} {{ t is boolean }} {{ t is true }} {{ 1 is true }} {{ false is false }} {{ range is callable }} {{ a is callable }} {{ missing is sequence }} {{ missing is iterable }} {{ missing is string }} {{ n is not none }} {{ a is not defined }}
{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }} {{ '1' is upper }} {{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is gt 2 }} {{ 1 is le 1 }} {{ 1 is ge 2 }} {{ 1 is lessthan 2 }} {{ 1 is greaterthan 2 }} {{ 1 is in l }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ n is sameas none }} {{ l is sameas l }} {{ s is escaped }} {{ 1 is == 1 }}
{{ 1 is nope }}
{{ 1 | nope }}
{{ -5 | abs }} {{ (-5) | abs }} {{ -2.5 | abs }} {{ d | attr('items') is callable }} {{ d | attr('x') }} {{ s | capitalize }} {{ 'hELLO wORLD' | capitalize }} {{ 'x' | center(5) }}| {{ 'xy' | center(5) }}| {{ l | count }} {{ zz | default('d') }} {{ e | d('x', true) }} {{ n | default('z') }} {{ e | default('q', boolean=true) }}
{{ d | dictsort }} {{ {'b': 1, 'A': 3, 'c': 2} | dictsort }} {{ {'b': 1, 'A': 3, 'c': 2} | dictsort(true) }} {{ {'b': 1, 'A': 3} | dictsort(false, 'value', true) }}
{{ 13 | filesizeformat }} {{ 1 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1500000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ 3500000000 | filesizeformat(binary=true) }} {{ 0 | filesizeformat }} {{ '2e24' | filesizeformat }} {{ 1e30 | filesizeformat }}
{{ l | first }} {{ l | last }} {{ [] | first }} {{ '' | last }} {{ u | first }} {{ d | first }} {{ '1.5' | float }} {{ 'x' | float }} {{ 'x' | float(2) }} {{ 3 | float }} {{ ' 1_0.5e1 ' | float }} {{ 'inf' | float }} {{ '-Infinity' | float }} {{ 'nan' | float }}
{{ '42' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 4.9 | int }} {{ -4.9 | int }} {{ ' 12 ' | int }} {{ '0x1f' | int(base=16) }} {{ '1f' | int(0, 16) }} {{ '0b11' | int(0, 0) }} {{ t | int }} {{ n | int }} {{ [] | int(3) }} {{ '1_000' | int }} {{ '-7' | int }} {{ '1__0' | int }} {{ '_1' | int }} {{ '12abc' | int }} {{ '' | int(9) }}
{{ '%s-%d-%05.2f' | format('a', 5, 3.14159) }} {{ '%(a)s' | format(a=1) }} {{ 'a%%' % () }} {{ '%5s|%-5s|%.2s' % ('ab', 'cd', 'efg') }} {{ '%x %X %o %#x %+d % d %05d %-5d|' % (255, 255, 8, 255, 5, 5, -42, 42) }} {{ '%r %s' % ('q', none) }} {{ '%e %g %G %.3g' % (12345.678, 0.00001, 1e20, 3.14159) }} {{ '%c%c' % ('x', 65) }} {{ '%*d' % (5, 42) }} {{ '%s' % 1 }} {{ '%s' % [1] }} {{ '%d' % 3.9 }} {{ '%i' % true }} {{ '%5.1f|' % 2.25 }}
{{ '%d' % 'a' }}
{{ '%s %s' % (1,) }}
{{ '%s' % (1, 2) }}
{{ 'a' % 1 }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('x', 'y') }} {{ '{a}{b}'.format(a=1, b=2) }} {{ '{{}}'.format() }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d} {:+} {:,} {:x} {:#x} {:08.3f} {:.2%} {:e}'.format(42, 5, 1234567, 255, 255, 3.14159, 0.256, 12345.678) }} {{ '{0.x} {0[x]} {1[0]}'.format(d, l) }} {{ '{!r}'.format('a') }} {{ '{:10}|{:10}|'.format('a', 5) }} {{ '{:.3}'.format('abcdef') }} {{ '{}'.format(none) }} {{ '{a}'.format_map({'a': 3}) }}
{{ '{}'.format() }}
{{ people | groupby('a') }} {% for g, xs in people | groupby('n') %}{{ g }}:{{ xs | length }};{% endfor %} {% for g in people | groupby('a') %}{{ g.grouper }}{{ g.list | map(attribute='n') | join }};{% endfor %} {{ people | groupby('n', case_sensitive=true) | map('first') | list }} {{ people | groupby('zz', default='none') }}
{{ nl | indent }}| {{ nl | indent(2, true) }}| {{ nl | indent('> ', blank=true) }}| {{ '' | indent }}|
{{ l | join }} {{ l | join(', ') }} {{ people | join('-', attribute='n') }} {{ [] | join('x') }} {{ 'abc' | join('.') }} {{ [1, none, 'a', missing] | join('|') }} {{ l | length }} {{ u | length }} {{ d | length }} {{ missing | length }}
{{ 5 | length }}
{{ n | length }}
{{ s | lower }} {{ s | upper }} {{ u | upper }} {{ u | lower }} {{ d | list }} {{ 'añ' | list }} {{ d | items | list }} {{ missing | items | list }} {{ 'ÀÉÎ' | lower }} {{ 'привет мир' | title }} {{ 'αβγ' | upper }}
{{ people | map(attribute='n') | list }} {{ people | map(attribute='zz', default='-') | list }} {{ words | map('upper') | join(' ') }} {{ l | map('string') | list }} {{ [[1, 2], [3]] | map('sum') | list }} {{ ['a1', 'b2'] | map('replace', 'a', 'z') | list }} {{ [[1, 2]] | map(attribute=0) | list }} {{ missing | map('upper') | list }} {{ people | map(attribute='n.x') | list }}
{{ l | min }} {{ l | max }} {{ words | min }} {{ words | max }} {{ people | max(attribute='a') }} {{ [] | min }} {{ ['b', 'A'] | min(case_sensitive=true) }}
{{ [1, 2, 3, 4] | reject('odd') | list }} {{ people | rejectattr('a', 'eq', 2) | list }} {{ [0, 1, n, ''] | reject | list }} {{ [0, 1, none, 'x'] | select | list }} {{ [1, 2, 3] | select('gt', 1) | list }} {{ people | selectattr('a', 'equalto', 2) | map(attribute='n') | list }} {{ people | selectattr('zz') | list }} {{ people | selectattr('n', 'in', ['a', 'b']) | list | length }} {{ [1, 'a'] | select('string') | first }}
{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ 'aaa' | replace('', '-') }} {{ 5 | replace(5, 6) }} {{ l | reverse | list }} {{ s | reverse }} {{ u | reverse }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ -2.1 | round(method='floor') }} {{ 5 | round }} {{ 42.55 | round(1, 'floor') }} {{ 1234.5678 | round(2) }}
{{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3, 4, 5] | slice(3, 0) | list }} {{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }}
{{ l | sort }} {{ l | sort(true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute='a') }} {{ people | sort(attribute='a,n') }} {{ people | sort(reverse=true, attribute='a') | map(attribute='n') | join }} {{ [1.5, 1, true] | sort }}
{{ [1, 'a'] | sort }}
{{ 5 | string }} {{ l | sum }} {{ people | sum(attribute='a') }} {{ [1.5, 2] | sum }} {{ [] | sum(start=3) }} {{ [[1], [2]] | sum(start=[]) }} {{ 'hello wORLD-foo (bar) it\'s' | title }} {{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 'a b' | wordcount }} {{ u | wordcount }}
{{ 'hello big world foo' | truncate(12) }} {{ 'hello big world foo' | truncate(12, true) }} {{ 'hello big world foo' | truncate(12, false, '..', 0) }} {{ 'short' | truncate(3, leeway=5) }} {{ 'hello' | truncate(2, end='', leeway=0) }}
{{ words | unique | list }} {{ words | unique(true) | list }} {{ [1, 1.0, true, 2] | unique | list }} {{ people | unique(attribute='a') | map(attribute='n') | list }} {{ 'a b/ü?&' | urlencode }} {{ {'a b': 1, 'c': 'x/y'} | urlencode }} {{ [['k', 'v w']] | urlencode }} {{ 5 | urlencode }}
{{ d | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ l | tojson(indent=2) }} {{ d | tojson(indent=4) }} {{ {} | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': [1.0, none, true]} | tojson(sort_keys=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ '"\\\n\t\x08\x0c\r\x01\x7f/<>&\'' | tojson }} {{ (1, 2) | tojson }} {{ [1e16, 1e-7, 0.1] | tojson(indent='\t') }}
{{ missing | tojson }}
{{ range(3) | tojson }}
{{ [missing] | tojson }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ ' a b  c '.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('abc') }} {{ nl.splitlines() }} {{ nl.splitlines(true) }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}
{{ 'abc'.split('') }}
{{ w.strip() }}|{{ w.lstrip() }}|{{ w.rstrip() }}|{{ 'xxaxx'.strip('x') }}{{ 'abcba'.lstrip('ab') }}{{ 'abcba'.rstrip('ab') }} {{ s.upper() }}{{ s.lower() }}{{ s.title() }}{{ s.capitalize() }}{{ s.swapcase() }} {{ s.replace('l', 'r') }}{{ s.replace('l', 'r', 1) }} {{ s.startswith('He') }}{{ s.endswith('ld') }}{{ s.startswith(('x', 'H')) }}{{ s.startswith('l', 2) }}{{ s.endswith('o', 0, 5) }}
{{ s.find('o') }}{{ s.find('o', 5) }}{{ s.find('zz') }}{{ s.rfind('o') }}{{ s.index('l') }}{{ s.count('l') }}{{ s.count('') }}{{ u.find('世') }}{{ u.rfind('é') }}{{ 'aaa'.count('aa') }}{{ 'abc'.find('') }}{{ 'abc'.find('c', -1) }}{{ 'abc'.find('', 4) }}
{{ s.index('zz') }}
{{ ', '.join(['a', 'b']) }}{{ '-'.join('abc') }} {{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '.') }}{{ 'x'.center(4, '*') }} {{ '42'.zfill(5) }}{{ '-42'.zfill(5) }} {{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removeprefix('x') }} {{ 'a\tb'.expandtabs() }}|{{ 'a\tb'.expandtabs(4) }}
{{ ', '.join([1]) }}
{{ 'abc'.isalpha() }}{{ 'ab1'.isalpha() }}{{ '12'.isdigit() }}{{ ''.isdigit() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ 'ab'.islower() }}{{ 'AB'.isupper() }}{{ 'Ab Cd'.istitle() }}{{ 'abc'.isascii() }}{{ 'é'.isascii() }}{{ '½'.isnumeric() }}{{ 'é'.isalpha() }}{{ '٣'.isdecimal() }}{{ 'a\n'.isprintable() }}
{{ l.index(1) }}{{ l.count(3) }}{{ l.copy() }}{{ (1, 2).index(2) }}{{ d.copy() }}{{ f.is_integer() }}{{ 2.0.is_integer() }}
{{ s | safe }}{{ (s | safe) | length }}{{ 'a' ~ (s | safe) }}
{{ q + (s | safe) }}{{ (s | safe) + q + '<&>' }}{{ (q | safe) + (q | safe) }}{{ ('<' | safe) * 2 + '<' }}{{ ('<\'' | safe)[1] + '\'' }}{{ q ~ (q | safe) ~ q }}{{ ('<' | safe)[:1] + '<' }}{{ ('ab' | safe)[::-1] + '<' }}
{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m.content is string %}{{ m.content | trim }}{% else %}{% for c in m.tool_calls %}{{ c.function | tojson }}{{ c.function.arguments.items() | list }}{% endfor %}{% endif %}{{ '<|im_end|>' }}{% endfor %}
{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set sys = messages[0].content %}{% else %}{% set rest = messages %}{% endif %}{{ rest | length }}{{ sys }}{{ (rest | last).role }}{{ messages[-1].get('tool_calls', [])[0]['function']['name'] }}
{{ tools | tojson(indent=4) }}{% for t in tools %}{{ t.function.parameters.properties.items() | first | first }}{% endfor %}{{ (tools | first).function.name }}
{{ 1 if missing is defined and missing.x else 2 }}{{ (missing or {}).get('x', 'y') }}{{ (d.get('zz') or 'none') | upper }}
{{ 'a' if 'b' in 'abc' and not 'z' in 'abc' else 'c' }}{{ 1 if not n else 2 }}{{ not n is none }}{{ a == 1 and b < 0 or zz }}
{{ a.b.c }}
{{ a.__class__.__mro__ }}
{{ {}.x.y }}
{{ [1, 2 }}
{{ (1 }}
{% if %}{% endif %}
{% if a %}
{% endif %}
{% for x in %}{% endfor %}
{% foo %}
{{ }}
{{ a b }}
{{ 'abc }}
{# open
{% raw %} open
{{ a | }}
{{ a is }}
{% set %}
{% set 5 = 1 %}
{% macro m(a=1, b) %}{% endmacro %}
{% break %}
{{ m(a=1, 2) }}
{{ f(**d, *l) }}
{{ 1 is odd is even }}
{{ '\x4' }}
{{ @ }}
{{ a ? b }}
{% endfor %}
{% for x in l %}{% endif %}
{{ "a" ~ 'b' if a else 'c' ~ 'd' }}{{ 1 + 1 if 1 else 0 }}{{ [1, 2, 3,] }}{{ (1, 2,) }}{{ {'a': 1,} }}{{ [] }}{{ () }}{{ dict(a=1,) }}
{{ l | map('float') | map('int') | sum }}{{ l | join(',') | upper | length }}{{ -1 | abs }}{{ 'a' 'b' | upper }}{{ 2 ** 2 | string ~ 'x' }}{{ not a | string }}{{ a | string is string }}
{{ [1, 2, 3] | map('string') | join('+') ~ '=' ~ ([1, 2, 3] | sum) }}{{ 'x' in ['x'] | list }}{{ (1, 2) in [(1, 2)] }}{{ {'a': 1} == {'a': 1.0} }}{{ [1, [2]] == [1, [2]] }}
{% set x = [] %}{% for i in range(3) %}{% set x = x + [i] %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(x=[]) %}{% for i in range(3) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}
{% set it = l | map('string') %}{{ it | first }}{{ it | list }}{{ it | list }}{% set r = l | reverse %}{% for x in r %}{{ x }}{{ loop.length }}{% endfor %}{% for x in r %}{{ x }}{% endfor %}
{% macro outer() %}{% macro inner(x) %}{{ x }}{{ caller() if caller else '' }}{% endmacro %}{{ inner(1) }}{% call inner(2) %}c{% endcall %}{% endmacro %}{{ outer() }}
{% for i in l %}{{ a }}{% endfor %}{% set a = 5 %}{{ a }}{% for i in l %}{% for j in l %}{{ s }}{% endfor %}{% set s = i %}{{ s }}{% endfor %}
{% if n %}{% set a = 5 %}{% endif %}{{ a }}{% macro m() %}{{ s }}{% endmacro %}{{ m() }}{% set s = 1 %}{{ m() }}{% set f = f %}{{ f }}
{% filter upper %}{% for i in l %}{{ s }}{% endfor %}{% set s = 'x' %}{{ s }}{% endfilter %}{% with e = s %}{{ e }}{% endwith %}{% set k %}{% for i in l %}{{ q }}{% endfor %}{% set q = 1 %}{% endset %}{{ k }}
{% for x in l %}{% if x == 1 %}{% set a = 'in' %}{% endif %}{{ a }}{% endfor %}{% macro r() %}{% for i in l %}{{ b }}{% endfor %}{% set b = 2 %}{{ b }}{% endmacro %}{{ r() }}{{ b }}
{% generation %}{{ varargs }}{{ kwargs }}{{ caller is defined }}{% for x in l %}{{ x }}{% endfor %}{% set a = 7 %}{{ a }}{% endgeneration %}{{ a }}
{% for m in messages %}{% macro role() %}{{ m.role }}{% endmacro %}{{ role() }}{% endfor %}
{% for i in range(2) %}{% filter upper %}a{{ i }}{% if i == 1 %}{% break %}{% endif %}{% endfilter %}{% endfor %}|
{% set a = a + 1 %}{{ a }}{% set b %}{{ a }}{% set a = 9 %}{% endset %}{{ a }}{{ b }}
{% if a is defined and a %}{%- set k = 'v' -%}{%- endif -%}   {{- k -}}   {%- if not zz is defined %} z{% endif %}
{{ '%s' % u }}{{ '%-12s|' % u }}{{ '{:>14}'.format(u) }}{{ u.center(20, '*') }}{{ u | truncate(5, true, '…', 0) }}
{{ '\u4e16'.encode is defined }}
{{ s.format.x }}
{{ 'ß'.lower() }}{{ 'ÄÖÜ'.lower() }}{{ 'äöü'.upper() }}{{ 'Éa'.swapcase() }}{{ 'ñandú'.capitalize() }}
{{ 9223372036854775807 }}{{ -9223372036854775807 }}{{ 9223372036854775807 == 9223372036854775807.0 }}{{ 9007199254740993 == 9007199254740992.0 }}{{ 1 < 1.5 < 2 }}
{{ loop is defined }}{{ caller is defined }}{{ self is defined }}{{ true }}{{ True }}{{ none }}{{ None }}{{ not }}
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}{% for x in 'ab' %}{{ loop.nextitem is defined }}{{ loop.previtem is undefined }}{% endfor %}
{% for x in [1, 1, 2] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}{% for k in {'b': 1, 'a': 2} | sort %}{{ k }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}
{{ "a\\nb" }}{{ 'tab\there' | tojson }}{{ ["\u00e9"] }}
"""


def environment():
    compile_ = getattr(chat_template_utils, "_cached_compile_jinja_template", chat_template_utils._compile_jinja_template)
    env = compile_("").environment
    env.globals.pop("strftime_now", None)   # no clock: tblock has it only with --date
    return env


def rendered(env, template, variables):
    try:
        text = env.from_string(template).render(**variables)
        text.encode()
        return text
    except (Exception, RecursionError):
        return None


def snippets():
    """One a line; \n, \r and \t outside of tags are written as such."""
    for line in SNIPPETS.strip("\n").split("\n"):
        outside = not line.startswith("{{") or "\\r" in line or line.endswith("\\n")
        yield line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t") if outside and "'" not in line else line


def record():
    env = environment()
    versions = {name: importlib.metadata.version(name) for name in ("jinja2", "transformers")}
    with open(ANSWERS, "w") as out:
        out.write(json.dumps({"made by": "tests/references/record_jinja.py", "versions": versions, "given": DATA}, ensure_ascii=False) + "\n")
        for template in snippets():
            out.write(json.dumps({"template": template, "text": rendered(env, template, DATA)}, ensure_ascii=False) + "\n")
    found = {name: " ".join(digest(rendered(env, text, {**c, **OWN})) for c in CONVERSATIONS) for name, text in templates()}
    if found:
        ANSWERS.with_name("jinja_conversations.json").write_text(json.dumps({"versions": versions, **found}, indent=1) + "\n")


# ---- Random snippets ---------------------------------------------------------------------------------------------------

NAMES = list(DATA) + ["zz"]
FILTERS = ["abs", "capitalize", "center(9)", "count", "default('d')", "d(1, true)", "dictsort", "first", "float", "groupby('a')", "indent(2)",
           "int", "join", "join(',')", "last", "length", "list", "lower", "items|list", "map('string')|list", "map('upper')|list", "max",
           "min", "reject('odd')|list", "replace('a', 'b')", "reverse|list", "round", "round(1)", "select|list", "select('string')|list",
           "selectattr('a')|list", "slice(2)|list", "batch(2, 0)|list", "sort", "sort(true)", "string", "sum", "title", "trim", "truncate(7)",
           "unique|list", "upper", "urlencode", "wordcount", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "attr('x')",
           "map(attribute='n')|list", "format(1)", "filesizeformat", "safe", "safe", "safe"]
TESTS = ["defined", "undefined", "none", "odd", "even", "string", "number", "mapping", "sequence", "iterable", "boolean", "true", "false",
         "integer", "float", "lower", "upper", "in l", "eq 1", "gt 1", "lt 'a'", "divisibleby 2", "callable", "not none", "not string"]
METHODS = [".upper()", ".lower()", ".strip()", ".split()", ".split(',')", ".title()", ".items()", ".keys()", ".values()", ".get('x')", ".x",
           ".y", ".role", "[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "['x']", "['content']", ".startswith('H')", ".endswith('d')", ".find('o')",
           ".replace('l', '')", ".count('l')", ".index(1)", ".join(['a', 'b'])", ".isdigit()", ".splitlines()", ".rstrip('\\n')",
           ".partition(',')", ".append(1)", ".__class__", ".zfill(4)", ".capitalize()", "[a]", "[b:a]", ".swapcase()", ".format(1)"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]
LITERALS = ["0", "1", "2", "-3", "1.5", "0.1", "1e20", "'a'", "''", "'b c'", "'é'", "[]", "[1, 2]", "{}", "{'k': 'v'}", "(1, 'x')", "true",
            "false", "none", "range(3)", "'%s'", "'{}'", "'x, y'", "'12'", "' 3.5 '"]


FORMS = ["{%DASH for x in EXPR DASH%}BODY{{ loop.index }}{{ x }}{%DASH endfor DASH%}", "{%DASH if EXPR DASH%}BODY{%DASH endif DASH%}",
         "{%DASH set v = EXPR DASH%}BODY{{ v }}{% set v = 2 %}", "{%DASH with v = EXPR DASH%}BODY{{ v }}{%DASH endwith DASH%}",
         "{%DASH macro f1(v=EXPR) DASH%}BODY{{ v }}{%DASH endmacro DASH%}", "{%DASH filter upper|default(EXPR) DASH%}BODY{%DASH endfilter DASH%}",
         "{%DASH for x in EXPR if x DASH%}BODY{{ loop.last }}{%DASH else DASH%}none{% endfor %}", "{# c DASH#} BODY {#DASH d #}",
         "{%DASH set v|default('x')|upper DASH%}BODY{%DASH endset DASH%}{{ v }}", "{%DASH raw %} BODY {%DASH endraw DASH%}"]


def expression(r, depth):
    kind = r.random()
    if depth == 0 or kind < 0.2:
        return r.choice(LITERALS if r.random() < 0.4 else NAMES)
    inner = expression(r, depth - 1)
    if kind < 0.4:
        return "(%s)|%s" % (inner, r.choice(FILTERS))
    if kind < 0.55:
        return "(%s)%s" % (inner, r.choice(METHODS))
    if kind < 0.75:
        return "%s %s %s" % (inner, r.choice(OPERATORS), expression(r, depth - 1))
    if kind < 0.83:
        return "(%s) is %s" % (inner, r.choice(TESTS))
    if kind < 0.9:
        return "(%s if %s else %s)" % (inner, expression(r, depth - 1), expression(r, depth - 1))
    return r.choice(["[%s, 1]", "(%s,)", "{'k': %s}", "not (%s)", "-(%s)", "f1(%s)", "(%s)[1:]"]) % inner


def body(r, depth):
    text = r.choice(["", " ", "\n", "x", " \n ", "a\n  "])
    for _ in range(r.randint(1, 3)):
        kind, dash = r.random(), lambda: r.choice(["", "", "-", "+"])
        if depth == 0 or kind < 0.5:
            text += "{{%s %s %s}}" % (r.choice(["", "-"]), expression(r, 2), r.choice(["", "-"]))
        else:
            form = r.choice(FORMS).replace("EXPR", expression(r, 1)).replace("BODY", body(r, depth - 1))
            while "DASH" in form:
                form = form.replace("DASH", dash(), 1)
            text += form
        text += r.choice(["", " ", "\n", "\n\n", "\t y", "  \n  "])
    return text


def requests(how, what):
    """(template, variables) to compare."""
    r = random.Random(int(os.environ.get("SEED", "1")))
    if how == "--random":
        for _ in range(int(what)):
            yield body(r, 2) if r.random() < 0.5 else "{{ %s }}" % expression(r, 3), DATA
    else:
        for path in sorted(pathlib.Path(what).glob("*.jinja")):
            for c in CONVERSATIONS:
                yield open(path, newline="").read(), {**c, **OWN}


def compare(how, what):
    env, tool = environment(), Tool()
    same = errors = refused = differs = 0
    for template, variables in requests(how, what):
        found, expected = tool.ask(template, variables), rendered(env, template, variables)
        why = found.get("error", "")
        if found.get("text") == expected:
            same += expected is not None
            errors += expected is None
        elif any(w in why for w in ("not supported", " of memory", "64 bits", "has no slices")) or (expected and " at 0x" in expected):
            refused += 1
        else:
            differs += 1
            print("%r\n   Python: %r\n   tblock: %r" % (template[:2000], expected, found.get("text", why)))
    print("%d alike, %d refused by both, %d refused here by name, %d differ" % (same, errors, refused, differs))
    return differs > 0


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[1:3]) if sys.argv[1:] else record())
