/* report/page_style.c: how the HTML report looks: one style sheet, light and dark. */
#include "report/page.h"

const char *const group_colours[GROUP_COUNT] = {
    [GROUP_PROJECTIONS] = "proj", [GROUP_SCORES] = "scores", [GROUP_FFN] = "ffn", [GROUP_OTHER] = "other",
};

const char *const page_style[] = {
    ":root{color-scheme:light dark;--bg:#f6f6f3;--card:#fff;--ink:#1c2127;--soft:#5d6775;--line:#e2e2dc;--grid:#ecece7;"
    "--proj:#3a6ed0;--scores:#8b4fc9;--ffn:#d9821b;--other:#8a93a1;--embed:#2b9a74;--head:#1d7f93;--bad:#c62f2f;--good:#2b8a4e;"
    "--projt:#eaf0fb;--scorest:#f3ecfa;--ffnt:#fcf1e3;--othert:#f0f1f3;--embedt:#e6f5ef;--shade:#0003}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#121418;--card:#1a1d23;--ink:#e7e9ed;--soft:#9aa4b3;--line:#2d323b;"
    "--grid:#262a32;--proj:#6f9cf2;--scores:#b88bf0;--ffn:#eda64a;--other:#8b95a6;--embed:#52c29c;--head:#4fb5cb;--bad:#f07070;"
    "--good:#5fc487;--projt:#1d2a44;--scorest:#2e2340;--ffnt:#3a2a14;--othert:#272b32;--embedt:#16342a;--shade:#000c}}\n",
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\","
    "Arial,sans-serif;-webkit-text-size-adjust:100%}\n"
    "main{max-width:1180px;margin:0 auto;padding:36px 20px 60px}\n"
    "h1{font-size:30px;line-height:1.2;margin:2px 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}\n"
    "h2{font-size:19px;margin:0 0 4px;letter-spacing:-.005em}h3{font-size:14px;margin:22px 0 6px;color:var(--soft);font-weight:600}\n"
    ".kicker{color:var(--soft);font-size:13px}.sub{color:var(--soft);margin:0;overflow-wrap:anywhere}\n"
    "p.say{color:var(--soft);margin:0 0 16px;max-width:72ch}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:22px 24px;margin-top:18px;min-width:0}\n"
    ".tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:12px;margin-top:22px}\n"
    ".tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:13px 16px 12px}\n"
    ".tile b{display:block;font-size:23px;line-height:1.25;font-weight:650;letter-spacing:-.01em;white-space:nowrap}\n"
    ".tile span{color:var(--soft);font-size:13px;display:block;line-height:1.35}\n",
    ".two{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:18px}.two>*{min-width:0}\n"
    ".flow{display:grid;grid-template-columns:minmax(0,490px) minmax(0,1fr);gap:32px}\n"
    "@media(max-width:940px){.two,.flow{grid-template-columns:minmax(0,1fr)}.tiles{grid-template-columns:repeat(3,1fr)}}\n"
    "pre.formulas{overflow-x:auto;margin:0 0 16px;font:13px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,"
    "\"DejaVu Sans Mono\",monospace}\n"
    /* a shade at the side where a table goes on */
    ".wide{overflow-x:auto;background:linear-gradient(to left,var(--card) 40%,transparent) right/40px 100% no-repeat local,"
    "linear-gradient(to left,var(--shade),transparent) right/14px 100% no-repeat scroll}\n"
    ".wide th:first-child,.wide td:first-child{position:sticky;left:0;background:var(--card)}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}\n"
    "th{font-weight:600;color:var(--soft);font-size:12.5px;text-align:right;white-space:nowrap}\n"
    "th,td{padding:5px 8px;border-bottom:1px solid var(--grid)}td{text-align:right;white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left;padding-left:0}th:last-child,td:last-child{padding-right:0}\n"
    "thead th{border-bottom-color:var(--line)}tr.sum td{border-bottom-color:var(--grid)}tr.first td{border-top:2px solid var(--line)}\n"
    "tr.total td{font-weight:650}td.l,th.l{text-align:left}td.dim{color:var(--soft)}th.c{text-align:center}\n"
    "code,.mono{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;overflow-wrap:anywhere}\n",
    "td.share div{display:flex;align-items:center;justify-content:flex-end;gap:8px}\n"
    "td.share b{flex:1 1 44px;min-width:44px;max-width:110px;height:7px;border-radius:2px;background:var(--grid);overflow:hidden}"
    "td.share span{flex:none;width:3.3em}td.share i{display:block;height:100%;border-radius:2px}sup{font-size:.72em;line-height:0}\n"
    "i.key{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px;vertical-align:-1px}\n"
    "i.proj,.bar .proj{background:var(--proj)}i.scores,.bar .scores{background:var(--scores)}i.ffn,.bar .ffn{background:var(--ffn)}\n"
    "i.other,.bar .other{background:var(--other)}i.embed,.bar .embed{background:var(--embed)}i.head,.bar .head{background:var(--head)}\n"
    ".bar{display:flex;gap:2px;height:26px;border-radius:6px;overflow:hidden;background:var(--grid)}.bar div{min-width:1px}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:3px 20px;margin:8px 0 16px;padding:0;list-style:none;font-size:13px}\n"
    ".legend b{font-weight:600}.legend span{color:var(--soft)}\n"
    "dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 18px;margin:0;font-size:14px}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    ".ok{color:var(--good);font-weight:600}.wrong{color:var(--bad);font-weight:600}\n"
    "details summary{cursor:pointer;color:var(--soft)}footer{color:var(--soft);font-size:13px;margin-top:26px}\n",
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}\n"
    "svg .s{fill:var(--soft);font-size:12px}svg .t{font-weight:600}svg .m{text-anchor:middle}svg .e{text-anchor:end}\n"
    "svg .wire{fill:none;stroke:var(--soft);stroke-width:1.4}svg .skip{stroke:var(--soft);stroke-width:1.4;fill:none;"
    "stroke-dasharray:4 3}svg .tip{fill:var(--soft)}\n"
    "svg .box{stroke-width:1.5}svg .proj{fill:var(--projt);stroke:var(--proj)}svg .scores{fill:var(--scorest);stroke:var(--scores)}\n"
    "svg .ffn{fill:var(--ffnt);stroke:var(--ffn)}svg .other{fill:var(--othert);stroke:var(--other)}\n"
    "svg .embed{fill:var(--embedt);stroke:var(--embed)}svg .zone{fill:none;stroke:var(--line);stroke-width:1}\n"
    "svg .grid{stroke:var(--grid);stroke-width:1}svg .axis{stroke:var(--line);stroke-width:1}\n"
    "svg .line{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}svg .dash{stroke-dasharray:6 5}\n"
    "svg .mark{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:2 3}svg .halo{paint-order:stroke;stroke:var(--card);"
    "stroke-width:4px;stroke-linejoin:round}\n"
    "svg text.cproj{fill:var(--proj)}svg text.cscores{fill:var(--scores)}svg text.cffn{fill:var(--ffn)}svg text.cother{fill:var(--soft)}"
    "svg text.cembed{fill:var(--embed)}svg text.chead{fill:var(--head)}\n"
    "svg .line.proj{stroke:var(--proj);fill:none}svg .line.scores{stroke:var(--scores);fill:none}svg .line.ffn{stroke:var(--ffn);"
    "fill:none}svg .line.other{stroke:var(--other);fill:none}svg .line.embed{stroke:var(--embed);fill:none}"
    "svg .line.head{stroke:var(--head);fill:none}\n"
    "svg.flow-svg{max-width:520px;margin:0 auto}svg.plot{max-width:520px}svg.plot text{font-size:13px}svg.plot .s{font-size:12px}td.wrap{white-space:normal;min-width:150px}\n"
    "@media(max-width:940px){td.share b{min-width:24px}th,td{padding:5px 6px}}\n"
    "@media(max-width:560px){main{padding:22px 10px 40px}section{padding:16px 14px}.tiles{grid-template-columns:repeat(2,1fr)}"
    "svg.flow-svg text{font-size:14px}svg.flow-svg .s{font-size:13px}svg.plot text{font-size:14px}svg.plot .s{font-size:13px}td.exact{display:none}}\n"
    "@media print{body{background:#fff}section,.tile{break-inside:avoid}}\n",
    NULL,
};
