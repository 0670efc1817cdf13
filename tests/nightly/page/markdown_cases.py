# SPDX-License-Identifier: Apache-2.0
"""The page's Markdown: what a model writes, and the nodes it becomes, as HTML."""


def link(address, text):
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer">{text}</a>'


CASES = [
    ("a\n\nb", "<p>a</p><p>b</p>"),
    ("# One\n### Three", "<h2>One</h2><h4>Three</h4>"),
    ("**b** *i* _i_ ~~d~~ `c*c*`", "<p><strong>b</strong> <em>i</em> <em>i</em> <del>d</del> <code>c*c*</code></p>"),
    ("**b *i* b**", "<p><strong>b <em>i</em> b</strong></p>"),
    ("2 * 3 * 4, snake_case_name, a*", "<p>2 * 3 * 4, snake_case_name, a*</p>"),
    (r"\*not\* <b>x</b> &amp;", "<p>*not* &lt;b&gt;x&lt;/b&gt; &amp;amp;</p>"),
    ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("1. a\n\n2. b\n\nend", '<ol start="1"><li>a</li><li>b</li></ol><p>end</p>'),
    ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("---", "<hr>"),
    ("[a](https://x.example/b)", f"<p>{link('https://x.example/b', 'a')}</p>"),
    ("See https://x.example/b.", f"<p>See {link('https://x.example/b', 'https://x.example/b')}.</p>"),
    ("[a](javascript:alert(1)) [b](/etc) [c]( JavaScript:x)", "<p>[a](javascript:alert(1)) [b](/etc) [c]( JavaScript:x)</p>"),
    ("[a](java\tscript:x) [b](vbscript:x) [c](data:text/html,x)", "<p>[a](java\tscript:x) [b](vbscript:x) [c](data:text/html,x)</p>"),
    ("|a|b|\n|---|:-:|\n|1|`2`|3|", '<div class="wide" tabindex="0"><table><thead><tr><th>a</th><th>b</th></tr></thead>'
     "<tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table></div>"),
]

# Texts that would be slow if marks were looked for again and again; each is shown all the same.
LONG = ["*a " * 6000, "[" * 19000 + "](", "`a``" * 5000, "-" * 300_000 + "x", "|-" * 100_000 + "x\n" + "|-" * 100_000 + "x",
        "> " * 50_000, "- " * 50_000, "**a" * 6000, "h" * 100_000, "[a](" * 4900, "\n".join("  " * n + "- a" for n in range(500))]
