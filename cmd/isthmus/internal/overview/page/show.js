// What makes elements. Texts become text nodes, never markup.

// el returns an element with attributes and children; strings become text, and what is null or
// false is left out.
export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) e.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) e.setAttribute(name, value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false && c !== "").map((c) => (typeof c === "number" ? count(c) : c)));
  return e;
}

const thousands = new Intl.NumberFormat("en");

// count is a number for people.
export function count(n) {
  return thousands.format(n);
}

// plural is a number with its noun.
export function plural(n, one, many) {
  return count(n) + " " + (n === 1 ? one : many ?? one + "s");
}

// The gateway's clock, which ages go by, may differ from this one's.
let ahead = 0;

export function setClock(now) {
  ahead = Date.parse(now) - Date.now();
}

function ageText(at) {
  const s = Math.max(0, Math.round((Date.now() + ahead - at) / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

// age is how long ago something was; showAges keeps it right.
export function age(at) {
  if (!at) return "";
  return el("time", { datetime: at, title: new Date(at).toLocaleString(), class: "age" }, ageText(Date.parse(at)));
}

export function showAges() {
  for (const e of document.querySelectorAll("time.age")) {
    const text = ageText(Date.parse(e.dateTime));
    if (e.textContent !== text) e.textContent = text;
  }
}

// stateSeverity is how bad a cluster's state is, for a badge.
export const stateSeverity = { ready: 0, pending: 1, stale: 2, unreachable: 3, rejected: 3 };

const symbols = ["✓", "◐", "!", "✗"];

// badge is a word with a colour and a symbol for how bad it is, from 0 to 3.
export function badge(severity, ...words) {
  return el("span", { class: "badge s" + severity }, el("span", { "aria-hidden": "true", class: "symbol" }, symbols[severity]), " ", ...words);
}

// table returns an empty table. Roles are explicit, since narrow screens show rows as cards.
export function table(label, columns) {
  const body = el("tbody", { role: "rowgroup" });
  const head = columns.map(([text, kind]) => el("th", { role: "columnheader", scope: "col", class: kind }, text));
  return [el("table", { role: "table", "aria-label": label },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)), body), body];
}

// tableRow returns a row with a cell for each column.
export function tableRow(columns, cells, severity) {
  return el("tr", { role: "row", class: severity === undefined ? undefined : "row" + severity },
    cells.map((c, i) => el("td", { role: "cell", class: columns[i][1], "data-label": columns[i][0] }, el("div", {}, c))));
}
