// The stylesheet of all pages that tsxla writes: colours, type, cards and tables. Dark or light as in the system, or by the root's
// `data-theme`.

/** Colours of runs, chips and parts of bars, distinct in both themes and for most kinds of colour blindness. */
export const PALETTE: readonly string[] = ['#4269d0', '#ff725c', '#3ca951', '#efb118', '#a463f2', '#97bbf5'];

const LIGHT = `--bg:#f7f7f5;--card:#fff;--ink:#1b1d21;--soft:#62676f;--faint:#8b9098;--line:#e3e3df;--grid:#ededea;--ground:#eeeeea;
--good:#1a7f4b;--bad:#c0362c;--warn:#8a6100;--accent:#2f56b8;--mark:#1d1f23;color-scheme:light`;
const DARK = `--bg:#121417;--card:#1a1d22;--ink:#e6e8eb;--soft:#9ba2ad;--faint:#747b86;--line:#2b2f36;--grid:#252930;--ground:#262a31;
--good:#4cc38a;--bad:#ff7b6b;--warn:#e0b050;--accent:#8fb0ff;--mark:#f4f4f4;color-scheme:dark`;

export const STYLE = `
:root{${LIGHT}}
@media(prefers-color-scheme:dark){:root:not([data-theme=light]){${DARK}}}
:root[data-theme=dark]{${DARK}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1120px;margin:0 auto;padding:28px 16px 48px}
.kicker{margin:0;color:var(--soft);font:600 12px/1 ui-monospace,Menlo,Consolas,monospace;letter-spacing:.06em}
h1{margin:8px 0 4px;font-size:30px;line-height:1.15;letter-spacing:-.01em}
h1 span{color:var(--soft);font-weight:400}
h2{margin:0;font-size:17px;line-height:1.3}
h3{margin:20px 0 8px;font-size:15px}
.note{margin:2px 0 14px;color:var(--soft);font-size:13.5px}
section{margin-top:22px;padding:18px 18px 16px;background:var(--card);border:1px solid var(--line);border-radius:10px}
.scroll{overflow-x:auto;margin:0 -18px;padding:0 18px}
.scroll+.scroll{margin-top:14px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{padding:4px 14px 6px 0;color:var(--soft);font-weight:500;text-align:left;white-space:nowrap}
td{padding:6px 14px 6px 0;border-top:1px solid var(--line);white-space:nowrap}
footer{margin-top:22px;color:var(--soft);font-size:12.5px}
@media(max-width:520px){h1{font-size:24px}section{padding:14px 14px 12px}.scroll{margin:0 -14px;padding:0 14px}}
`;
