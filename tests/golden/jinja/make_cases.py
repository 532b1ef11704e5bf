#!/usr/bin/env python3
"""Writes cases.jsonl: templates, and what Jinja2 makes of them with the settings of Hugging Face's chat templates.

Needs the package jinja2 (the committed file is from 3.1.6). A case that Jinja2 refuses has the text null.
"""

import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "x": "Hello World",
    "n": 5,
    "f": 1.5,
    "l": [3, 1, 2],
    "d": {"b": 1, "a": [1, {"c": None}]},
    "s": "  pad \n",
    "u": "äÖß 日本 😀é",
    "e": "",
    "z": None,
    "t": True,
    "m": [{"name": "b", "v": 2, "on": True}, {"name": "A", "v": 1}, {"name": "c", "v": 3, "on": False}],
    "ls": ["b", "A", "c"],
    "deep": {"a": {"b": [1, 2, {"c": "hit"}]}},
}

# One per line; each stands in {{ }}.
EXPRESSIONS = r"""
x|upper
x|lower|title
x|capitalize
u|upper
u|lower
u|length
u[0]
u[-1]
u[::-1]
u[1:4]
u[5:1:-1]
x[:3]
x[-3:]
x[::2]
l[::-1]
l[1:]
l[5]
l[-1]
l[10:]
l[-10:2]
n+1
n-1.5
n*2
n/2
n//2
-n//2
n%3
-n%3
n%-3
7.5%2
-7.5//2
2**10
2**-1
2**0.5
n~x
x~n~f~z~t
'a'+'b'
'a'+1
1+'a'
z+1
undefined_var+1
undefined_var
undefined_var.x
undefined_var is defined
undefined_var|default('q')
undefined_var|length
undefined_var|upper
undefined_var~'a'
e|default('q')
e|default('q',true)
z|default('q')
none
true
[1,'a',none,true,1.0,{'k':'v'}]
('a',)
()
(1,2)
{'a':1,'b':[1,2]}
{1:'a',none:2}
d
d.a
d['a'][1].c
d|items|list
d.keys()|list
d.values()|list
d.get('zz')
d.get('zz',5)
d.get('b')
d.nope
d.nope.more
d['nope']
l.nope
x.nope
n.nope
z.nope
z['a']
n[0]
l['a']
x|tojson
d|tojson
d|tojson(indent=2)
d|tojson(indent=4)
{'b':1,'a':{}}|tojson(sort_keys=true,indent=1)
[]|tojson(indent=2)
u|tojson
u|tojson(ensure_ascii=true)
d|tojson(separators=(',',':'))
d|tojson(false,2)
1.0|tojson
0.00001|tojson
1e16|tojson
1e15|tojson
123456789.123|tojson
1e300*1e10
-0.0
0.1+0.2
1e22
1.5e-7
'a\n"\t\x01\\b'|tojson
s|trim
s.strip()
s.lstrip()
s.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('xy')
'xyaxy'.rstrip('yx')
'abc'|trim('ac')
'a,b,,c'.split(',')
'a,b,,c'.split(',',1)
'a,b,,c'.split(',',0)
' a  b  c '.split()
' a  b  c '.split(none,1)
'a b '.split(none,1)
'a b '.split(none,0)
' a  b  c '.rsplit(none,1)
' a b '.rsplit(none,0)
'a.b.c'.rsplit('.',1)
'a.b.c'.rsplit('.')
''.split()
''.split(',')
'abc'.split('')
'a\nb\r\nc\n'.splitlines()
'a\nb\n'.splitlines(true)
x.startswith('He')
x.startswith(('x','H'))
x.startswith(['H'])
x.endswith('ld')
x.replace('o','0')
x.replace('o','0',1)
x|replace('o','0')
x|replace('o','0',1)
'abc'|replace('','-')
'abc'.replace('','-',2)
x.find('o')
x.rfind('o')
x.find('zz')
u.find('本')
x.count('l')
'abc'.count('')
'aaa'.count('aa')
','.join(ls)
','.join([1])
'{} {}'.format(1,'b')
'{0}{1}{0}'.format('a','b')
'{a}-{b}'.format(a=1,b=2)
'{{}}'.format()
'{0[1]} {d[b]}'.format(l,d=d)
'{}'.format()
'%s and %s' % ('a',2)
'%d%%' % 5
'%s' % x
'%s' % l
'%5d|%-5d|%05d|%+d' % (1,2,3,4)
'%.2f' % 1.234
'%5.1f|' % 2.25
'%x %X %o' % (255,255,8)
'%r' % 'a'
'%e' % 12345.678
'%g' % 0.00001
'%(a)s' % {'a':1}
'%s %s' % ('a',)
'%s' % ('a','b')
'a' % 1
'%c' % 'z'
'%.2s|%5s' % ('abc','ab')
'%s'|format(3)
'%s %s'|format(1,2)
x.title()
"they're bill's"|title
"they're bill's".title()
'foo-bar (baz)'|title
'HELLO'.capitalize()
'12'.isdigit()
''.isdigit()
'abc'.removeprefix('a')
'abc'.removesuffix('c')
ls|join(', ')
ls|join
m|map(attribute='name')|join(',')
m|map(attribute='on')|list
m|map(attribute='on',default='?')|join(',')
m|map(attribute='on',default=0)|list
ls|map('upper')|list
ls|map('replace','b','x')|list
m|selectattr('on')|list
m|selectattr('name','equalto','b')|list|length
m|selectattr('v','gt',1)|map(attribute='name')|list
m|rejectattr('on')|map(attribute='name')|list
m|selectattr('on','defined')|map(attribute='name')|list
m|rejectattr('on','undefined')|map(attribute='name')|list
l|select('odd')|list
l|reject('odd')|list
l|select('>',1)|list
l|select|list
[0,1,'']|reject|list
l|sort
l|sort(reverse=true)
ls|sort
ls|sort(case_sensitive=true)
m|sort(attribute='name')|map(attribute='v')|list
m|sort(true,attribute='v')|map(attribute='v')|list
d|dictsort
{'B':1,'a':2}|dictsort
{'B':1,'a':2}|dictsort(true)
{'B':1,'a':2}|dictsort(by='value',reverse=true)
[1,1,2,'a','A']|unique|list
['a','A','b']|unique(true)|list
l|first
l|last
[]|first
x|first
x|last
l|reverse|list
x|reverse
l|batch(2)|list
l|batch(2,'-')|list
l|sum
m|sum(attribute='v')
l|min
l|max
ls|max
'5'|int
'5.7'|int
'x'|int
'x'|int(3)
5.9|int
-5.9|int
'0x1f'|int(0,16)
'ff'|int(base=16)
' 7 '|int
'1.5'|float
'x'|float
true|int
none|int
none|float(2.5)
-3|abs
-3.5|abs
2.567|round(2)
2.5|round
2|round
42.55|round(1,'floor')
n|string
z|string
t|string
l|string
f|string
l|length
d|length
n|length
z|length
x|list
d|list
undefined_var|list
z|list
'<a href="x">\'&'|e
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2,true)
'a\nb\n\nc'|indent(2,blank=true)
'a\nb'|indent('>>')
'a'|safe
'a' in x
'H' in x
3 in l
9 in l
'b' in d
'q' not in d
1 in x
1 in z
'a' in undefined_var
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
'a' == 1
[1,2] == [1,2]
(1,2) == [1,2]
{'a':1} == {'a':1.0}
none == undefined_var
'a' < 'b'
'a' < 1
[1,2] < [1,3]
1 and 2
0 or 'x'
not 0
not x is defined
not x is none
x is string
n is number
t is number
t is integer
t is boolean
n is integer
f is float
f is integer
x is iterable
x is sequence
d is mapping
d is iterable
n is iterable
z is none
t is true
1 is true
false is false
n is odd
n is even
4 is divisibleby 2
4 is divisibleby(3)
n is eq 5
n is equalto(5)
n is ne 4
n is gt 4
n is lt(4)
n is in [5]
x is in [1]
n is not none
n is not in [1]
'abc' is lower
'ABC' is upper
'123' is lower
range is callable
x is callable
n is nosuchtest
n|nosuchfilter
x.nosuch()
nosuch()
'a' if true else 'b'
'a' if false
('a' if false) is defined
'a' if false else 'b' if false else 'c'
1 if true else 2 if true else 3
range(3)|list
range(1,4)|list
range(5,0,-2)|list
range(0)|list
range(1,2,0)
dict(a=1,b='x')
dict({'z':1},y=2)
dict([('a',1)])
namespace(a=1).a
namespace(a=1).b
cycler('a','b').next()
joiner('|')()
strftime_now('%d %b %Y')
raise_exception('boo')
-n
+n
-x
- -n
-n|abs
(-n)|abs
n|abs + 1
1 + 2 * 3 - 4 / 2
2 ** 3 ** 2
-2 ** 2
1 ~ 2 + 3
'a' ~ 'b' * 2
'ab' * 3
3 * 'ab'
[1] * 2
[1] + [2]
(1,) + (2,)
[1] + (2,)
deep.a.b[2].c
deep['a']['b'][2]['c']
deep.a.b.2.c
deep.a.b.0
'a' 'b'
"q'q"
'\x41\u00e9\n'
'\d'
0x1F
1_000
0b11
5 % 0
5 / 0
5 // 0
l is sameas l
1,2
x['length']
{'items':1}['items']
{'items':1}.items is callable
{'items':1}['keys'] is callable
l.index(1)
l.index(99)
"a" == 'a'
1 != 1
none is none and none is defined
d == d
'%s' % none
'%s' % true
''|int
'é'|length
'Straße'|upper
'ǆ'|upper
[undefined_var]
[undefined_var]|tojson
undefined_var|tojson
range|tojson
undefined_var == undefined_var
undefined_var|join(',')
undefined_var|first
undefined_var|items|list
z|trim
z|join
n|join
n|first
undefined_var[0]
undefined_var()
undefined_var < 1
"a"|default
l|join(1)
'abc'[1]
'abc'[5]
'abc'['x']
true + true
true ~ false
1.0
100.0
1e100
3.0|int
10/5
7//2.0
[1,[2,[3]]]|string
'a"b'|string ~ ['a"b', "a'b", 'a"\'b', 'a\nb', 'é', '\x7f']
namespace(a=1)|string is string
[1,2,3]|select('in',[1,3])|list
m|map(attribute='name')|map('lower')|sort|join
deep|map|list
m|map(attribute='v')|sum
[['a',1],['b',2]]|map('first')|list
[['a',1],['b',2]]|map(attribute=1)|list
[['a',1],['b',2]]|map(attribute='1')|list
m|selectattr('name','in',['b','c'])|list|length
m|selectattr('nope.deep')|list
"""

TEMPLATES = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "  {% if true %}  b  {% endif %}  c\n\n",
    "x {%- if true -%}   b\n {%- endif -%} \n c",
    "x {%+ if true %} b{% endif +%}\n c",
    "   {{ 1 }}   \n{{- 2 -}}  \n 3",
    "a {# c #}\n b {#- c -#} \n d",
    "{# only #}\n\nx",
    "  {# c #}  \n  y",
    "{%- raw %} {{ x }} {% endraw -%}  z",
    "{% raw %}\n{% if %}{% endraw %}\nz",
    "a\r\nb\r\n{% if true %}\r\nc{% endif %}\rd\r\n",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}",
    "{% for i in l if i > 10 %}{{ i }}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for a, (b, c) in [(1,(2,3))] %}{{a}}{{b}}{{c}}{% endfor %}",
    "{% for a, b in [(1,2,3)] %}{% endfor %}",
    "{% for i in n %}{% endfor %}",
    "{% for i in z %}{% endfor %}",
    "{% for i in undefined_var %}a{% else %}b{% endfor %}",
    "{% set q = 1 %}{% for i in l %}{{ q }}{% set q = q + i %}{{ q }};{% endfor %}{{ q }}",
    "{% set q = 1 %}{% if true %}{% set q = 2 %}{% endif %}{{ q }}",
    "{% set ns = namespace(q=1) %}{% for i in l %}{% set ns.q = ns.q + i %}{% endfor %}{{ ns.q }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}x{{ n }}y{% endset %}{{ a|upper }}",
    "{% set a | upper | replace('X','Q') %}x{{ n }}y{% endset %}{{ a }}",
    "{% set d.q = 1 %}",
    "{% set undefined_var.q = 1 %}",
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ f(1) }}{{ f(1,3) }}{{ f(1,c='z') }}{{ f(b=1,a=2) }}{{ f() }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(z=2) }}",
    "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1,2,3,q=4) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(4) }}{{ f(2)|length }}{{ f(2) == '21' }}",
    "{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}",
    "{% macro f() %}{% set q = 5 %}{{ q }}{% endmacro %}{{ f() }}{{ q is defined }}",
    "{% set g = 3 %}{% macro f() %}{{ g }}{% endmacro %}{{ f() }}{% set g = 4 %}{{ f() }}",
    "{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}",
    "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{{ n }}{% endcall %}",
    "{% macro w() %}<{{ caller(1,2) }}>{% endmacro %}{% call(a,b) w() %}{{ a }}{{ b }}{% endcall %}",
    "{% filter upper %}abc{{ x }}{% endfilter %}",
    "{% filter replace('a','b')|upper %}abc{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% break %}",
    "a{%- generation -%}  b {{ n }} {%- endgeneration -%} c",
    "{% generation %}\nb\n{% endgeneration %}\nc",
    "{% if n == 5 %}a{% elif n == 6 %}b{% else %}c{% endif %}",
    "{% if n == 4 %}a{% elif n == 5 %}b{% else %}c{% endif %}",
    "{% if undefined_var %}a{% else %}c{% endif %}",
    "{% if undefined_var.x %}a{% endif %}",
    "{{ {'a': {'b': 1}}.a.b }}",
    "{{ {'a': 1}}}",
    "{{ '}}' }}{{ '{%' }}",
    "{ {% if true %}{{ '{' }}{% endif %} }",
    "{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{% set j = joiner(', ') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}",
    "{% for i in l %}{{ loop.cycle('a','b') }}{% endfor %}",
    "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}",
    "{{ x",
    "{% if x %}",
    "{% if %}{% endif %}",
    "{% endif %}",
    "{% nosuch %}",
    "{{ x y }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ 'abc }}",
    "{# abc",
    "{{ }}",
    "{% for x %}{% endfor %}",
    "{% for in l %}{% endfor %}",
    "{% set %}",
    "{{ a.|b }}",
    "{{ a | }}",
    "{{ not }}",
    "{{ f(a=1, 2) }}",
    "{{ x is defined and x is string and not z }}",
    "{% set l2 = [] %}{% for i in l %}{% set l2 = l2 + [i*2] %}{% endfor %}{{ l2 }}",
    "{{ '%s'|format(x)|upper }}",
    "{%- set x = 1 -%}\n\n{{ x }}\n\n{%- set y = 2 %}\n  {{ y }}",
    "{% for m in m %}{{ m.name }}{% endfor %}{{ m|length }}",
    "{{- '\\n' -}}\n{{ '\\t' }}|",
    "   {%- if true %}\n   a\n   {%- endif %}\n",
    "{%if true%}a{%endif%}{{1}}{{-1}}{{- 1}}",
    "{% if true %}\n\n\nb{% endif %}",
    "{% if true -%}\n\n\nb{% endif %}",
    "\n{{ 1 }}\n\n",
    "{% set x -%}  a  {%- endset %}[{{ x }}]",
    "a  {% set x = 1 %}  b",
    "\t{% set x = 1 %}\t\n b",
    "line\n   {{ 1 }}\n   {% if 1 %}y{% endif %}\n",
    "{{ x|upper|lower }}{{ x | replace('Hello', 'Bye') | upper }}",
    "{% macro a(x) %}{{ x }}{% endmacro %}{% macro b(x) %}{{ a(x) ~ a(x) }}{% endmacro %}{{ b('q')|length }}",
    "{% if 'a' is string and 'b' in ['b'] or false %}ok{% endif %}",
    "{{ [1,2,3][1:]|first }}",
    "{{ 'a'.upper().lower()|upper }}",
    "{{ (x|length) + 1 }}{{ x|length + 1 }}",
    "{{ x if x else y }}{{ 1 if y is defined else 2 }}",
    "{% for i in (1,2,3) %}{{ i }}{% endfor %}",
    "{% for i in 1,2,3 %}{{ i }}{% endfor %}",
    "{{ loop is defined }}",
    "{% set ns = namespace() %}{% set ns.a = [] %}{{ ns.a }}{{ ns.b is defined }}",
    "{% set ns = namespace({'a':1}, b=2) %}{{ ns.a }}{{ ns.b }}",
    "{{ x[0]|upper }}{{ x[n] }}",
    "{{ 1 }}{% if false %}{{ q|nosuch }}{% endif %}",
]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = datetime.datetime(2026, 1, 5, 9, 7).strftime
    return made


def main():
    jinja = environment()
    lines = [{"variables": VARIABLES}]
    for template in ["{{ " + text + " }}" for text in EXPRESSIONS.strip("\n").split("\n")] + TEMPLATES:
        try:
            text = jinja.from_string(template).render(**VARIABLES)
        except Exception:  # whatever it refuses with
            text = None
        lines.append({"template": template, "text": text})
    path = pathlib.Path(__file__).with_name("cases.jsonl")
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
