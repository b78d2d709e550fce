// The script of the page. Once a second, it requests four lists from the replica and shows their
// changes.

// ---- Elements. Texts become text nodes, never markup.

// el returns an element with attributes and children. Strings become text nodes. Null and false are
// omitted.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) e.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) e.setAttribute(name, value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false && c !== "").map((c) => (typeof c === "number" ? count(c) : c)));
  return e;
}

const thousands = new Intl.NumberFormat("en");

// count formats a number for people.
function count(n) {
  return thousands.format(n);
}

// plural formats a number with its noun.
function plural(n, one, many) {
  return count(n) + " " + (n === 1 ? one : many ?? one + "s");
}

// Milliseconds by which the replica's clock is ahead of this one. Ages are based on the replica's
// clock.
let ahead = 0;

// setClock sets the clock from the Date of a response. A Date has whole seconds, so smaller
// differences are ignored.
function setClock(date) {
  const now = Date.parse(date) - Date.now();
  if (Math.abs(now - ahead) > 1500) ahead = now;
}

function ageText(at) {
  const s = Math.max(0, Math.round((Date.now() + ahead - at) / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

// age returns an element that shows the time since at. showAges updates the element.
function age(at) {
  if (!at) return "";
  return el("time", { datetime: at, title: new Date(at).toLocaleString(), class: "age" }, ageText(Date.parse(at)));
}

function showAges() {
  for (const e of document.querySelectorAll("time.age")) {
    const text = ageText(Date.parse(e.dateTime));
    if (e.textContent !== text) e.textContent = text;
  }
}

// stateSeverity maps the states of a cluster to severities of a badge.
const stateSeverity = { ready: 0, pending: 1, stale: 2, unreachable: 3, rejected: 3 };

const symbols = ["✓", "◐", "!", "✗"];

// badge returns a word with the color and symbol of a severity from 0 to 3.
function badge(severity, ...words) {
  return el("span", { class: "badge s" + severity }, el("span", { "aria-hidden": "true", class: "symbol" }, symbols[severity]), " ", ...words);
}

// table returns an empty table. Roles are explicit, because narrow screens show rows as cards.
function table(label, columns) {
  const body = el("tbody", { role: "rowgroup" });
  const head = columns.map(([text, kind]) => el("th", { role: "columnheader", scope: "col", class: kind }, text));
  return [el("table", { role: "table", "aria-label": label },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)), body), body];
}

// tableRow returns a row with a cell for each column.
function tableRow(columns, cells, severity) {
  return el("tr", { role: "row", class: severity === undefined ? undefined : "row" + severity },
    cells.map((c, i) => el("td", { role: "cell", class: columns[i][1], "data-label": columns[i][0] }, el("div", {}, c))));
}

// ---- The dialog that explains a service: the verdict on each address.

const mostAddresses = 200; // maximum number of shown addresses
const dialog = document.getElementById("explain");
const answer = document.getElementById("explanation");
const form = dialog.querySelector("form");

let domain = "cluster.local"; // cluster domain of the replica
let service;
let explained = 0; // number of requests

// openExplain opens the dialog for a service of the table.
function openExplain(s) {
  service = s;
  document.getElementById("explain-title").textContent = s.namespace + "/" + s.name;
  const ports = s.ports?.length ? s.ports : [80];
  form.elements.port.replaceChildren(...ports.map((p) => el("option", { value: p, selected: p === s.port }, String(p))));
  dialog.showModal();
  explain();
}

form.addEventListener("submit", (e) => {
  e.preventDefault();
  explain();
});
form.elements.port.addEventListener("input", explain);
dialog.querySelector(".close").addEventListener("click", () => dialog.close());

function explainAddress() {
  const f = form.elements;
  const q = new URLSearchParams({ authority: service.name + "." + service.namespace + ".svc." + domain + ":" + (f.port.value || 80) });
  const token = {};
  if (f.namespace.value.trim()) token.ns = f.namespace.value.trim();
  if (f.node.value.trim()) token.nodeName = f.node.value.trim();
  if (Object.keys(token).length) q.set("token", JSON.stringify(token));
  return "debug/explain?" + q;
}

async function explain() {
  const mine = ++explained;
  const url = explainAddress();
  answer.replaceChildren(el("p", { class: "dim" }, "Loading…"));
  let shown;
  try {
    const got = await fetch(url);
    shown = got.ok ? explanation(await got.json(), url) : [el("p", { class: "notice", role: "alert" }, (await got.text()).trim())];
  } catch {
    shown = [el("p", { class: "notice", role: "alert" }, silent)];
  }
  if (mine === explained) answer.replaceChildren(...shown);
}

function explanation(x, url) {
  return [
    el("p", { class: "lead" }, x.refused ? badge(3, "new streams are rejected: " + x.refused) :
      badge(x.set.endpoints ? 0 : 2, x.set.endpoints ? "served: " + plural(x.set.endpoints, "endpoint") : "no endpoints are served"),
      x.set.changed && [" changed ", age(x.set.changed), " ago" + (x.set.origin ? " by " + x.set.origin : "")]),
    el("p", { class: "dim" }, x.authority, clientText(x.client)),
    (x.problems ?? []).map((p) => el("p", { class: "notice" }, p)),
    x.preference && el("p", {}, "Prefers " + x.preference.prefer + "; min-ready " + x.preference.minReady + "."),
    x.tiers && el("p", {}, "Tiers: " + x.tiers.tiers.map((t) => t.tier + (t.inUse ? " (in use, " : " (") + count(t.ready) + " ready, " + count(t.sent) + " sent)").join(", ") + ". " + x.tiers.why),
    members(x.members), verdicts(x), addresses(x), held(x),
    el("p", {}, el("a", { href: url }, "Show everything as JSON")),
  ].flat().filter(Boolean);
}

function clientText(c) {
  const parts = [c.namespace && "in namespace " + c.namespace, c.node && "on node " + c.node, c.zone && "in zone " + c.zone].filter(Boolean);
  return parts.length ? " for a client " + parts.join(", ") : " for a client without a known node or namespace";
}

function members(list) {
  const columns = [["Cluster"], ["Service", "name"], ["State"], ["Standing"], ["Changed"], ["Why", "wide"]];
  const [element, body] = table("Members", columns);
  for (const m of list) {
    body.append(tableRow(columns, [el("strong", {}, m.cluster), m.service, badge(m.reason ? 3 : stateSeverity[m.state] ?? 3, m.state), m.standing, m.changed ? [age(m.changed), " ago"] : "–",
      [m.reason && el("p", {}, m.reason), m.standingReason && el("p", {}, m.standingReason)]], m.reason ? 3 : 0));
  }
  return [el("h3", {}, "Members"), list.length ? element : el("p", { class: "empty" }, "The service has no members.")];
}

function verdicts(x) {
  const list = Object.entries(x.verdicts).sort((a, b) => (b[0] === "served") - (a[0] === "served") || b[1] - a[1]);
  if (!list.length) return [];
  return [el("h3", {}, "Addresses"), el("ul", { class: "chips", "aria-label": "Number of addresses by verdict" },
    list.map(([verdict, n]) => el("li", { class: "chip" + (verdict === "served" ? " good" : "") }, verdict + " " + count(n))))];
}

// behindGateway is not a fault. Such addresses are reached through gateways in the list.
const behindGateway = "behind-a-gateway";

function verdictSeverity(verdict) {
  if (verdict === "served") return 0;
  return verdict === behindGateway ? 1 : 2;
}

// standsFor returns the object that an address is assigned to, and the source of the address.
function standsFor(a) {
  if (a.slice === "gateways") return "Gateway of " + a.cluster;
  return [a.target ?? "–", el("span", { class: "dim" }, " " + a.slice)];
}

// addresses sorts addresses with a problem first. Addresses behind gateways come last, because
// there may be many.
function addresses(x) {
  if (!x.addresses.length) return el("p", { class: "empty" }, "No member has any addresses.");
  const columns = [["Address", "name"], ["Verdict", "wide"], ["Cluster"], ["Stands for", "wide"], ["Zone", "name"]];
  const [element, body] = table("Addresses", columns);
  const rank = (a) => ({ served: 1, [behindGateway]: 2 })[a.verdict] ?? 0;
  const list = x.addresses.toSorted((a, b) => rank(a) - rank(b));
  for (const a of list.slice(0, mostAddresses)) {
    const severity = verdictSeverity(a.verdict);
    body.append(tableRow(columns, [el("code", {}, a.address), [badge(severity, a.verdict), a.detail && el("p", {}, a.detail)], a.cluster,
      standsFor(a), [a.zone ?? "–", a.tier && el("span", { class: "dim" }, " tier " + a.tier)]], severity));
  }
  const rest = list.length - mostAddresses + (x.moreAddresses ?? 0);
  return [element, list.length > mostAddresses && el("p", { class: "dim" }, "and " + plural(Math.max(0, rest), "more address", "more addresses"))];
}

function held(x) {
  const sum = (of) => x.streams.reduce((n, v) => n + (v[of] ?? 0), 0);
  if (!sum("streams")) return el("p", {}, "No proxy watches this service.");
  const late = [sum("waiting") && count(sum("waiting")) + " wait for a first message", sum("slow") && count(sum("slow")) + " are slow"].filter(Boolean);
  return el("p", {}, "Proxies have " + plural(sum("streams"), "stream") + " for this service: " + count(sum("upToDate")) + " with the newest endpoints" + late.map((l) => ", " + l).join("") + ".");
}

// ---- The cells of the four tables.

const standingSeverity = { "in-service": 0, "last-resort": 1, withdrawn: 2 };

function clusterCells(c) {
  const why = [c.reason, c.standingReason, ...(c.warnings ?? [])].filter(Boolean);
  return [
    [el("strong", {}, c.cluster || "(no name)"), c.region && el("span", { class: "dim" }, " " + c.region)],
    badge(stateSeverity[c.state] ?? 3, c.state),
    age(c.since),
    c.standing ? badge(standingSeverity[c.standing] ?? 2, c.standing) : "–",
    [behind(c), why.map((w) => el("p", {}, w)), !why.length && el("span", { class: "dim" }, c.server ?? "")],
  ];
}

// behind shows how a cluster on another network is reached.
function behind(c) {
  const gateways = c.gateways ?? [];
  return c.network && [
    el("p", {}, el("span", { class: "dim" }, "on network "), c.network, el("span", { class: "dim" }, gateways.length ? ", reached through its gateways" : ", without any known gateways")),
    gateways.length > 0 && el("ul", { class: "chips", "aria-label": "Gateways" }, gateways.map(gatewayChip)),
  ];
}

function gatewayChip(g) {
  const dead = g.state === "dead";
  return el("li", { class: "chip" + (dead ? " bad" : "") }, dead && el("span", { "aria-hidden": "true", class: "symbol" }, "✗ "), g.address,
    el("span", { class: dead ? "" : "dim" }, " " + g.state + (g.reason ? ": " + g.reason : "")));
}

function condition(s) {
  const severity = s.severity;
  if (severity === 3) return s.members.length && s.serving ? "no endpoints" : "not served";
  if (severity === 2) return s.problems?.length ? "wrong annotation" : count(s.serving) + " of " + plural(s.members.length + (s.moreMembers ?? 0), "cluster");
  return severity === 1 ? "more tiers in use" : "fine";
}

function memberChip(m, watched) {
  const text = m.reason ? m.cluster + ": " + m.reason : watched ? m.cluster + " " + count(m.endpoints) : m.cluster;
  return el("li", { class: "chip" + (m.reason ? " bad" : "") },
    m.reason && el("span", { "aria-hidden": "true", class: "symbol" }, "✗ "), text, m.service && el("span", { class: "dim" }, " as " + m.service),
    m.standing && el("span", { class: "out" }, " " + m.standing));
}

function tiersOf(s) {
  const list = (s.tiers ?? []).map((t) => el("p", {}, t.count > 1 ? badge(1, t.inUse) : t.inUse, t.zone && el("span", { class: "dim" }, " in " + t.zone)));
  if (list.length) return list;
  return s.prefer ? el("span", { class: "dim" }, "prefers " + s.prefer) : el("span", { class: "dim" }, "all clusters");
}

function serviceCells(s) {
  const name = el("button", { type: "button", class: "link", "data-focus": "service " + s.namespace + "/" + s.name, title: "Explain every address" },
    s.namespace + "/" + s.name);
  name.addEventListener("click", () => openExplain(s));
  return [
    [name, s.kind !== "federated" && el("span", { class: "dim" }, " " + s.kind), s.port > 0 && el("span", { class: "dim" }, " :" + s.port)],
    badge(s.severity, condition(s)),
    [s.members.length > 0 && el("ul", { class: "chips" }, s.members.map((m) => memberChip(m, s.watched)),
      s.moreMembers > 0 && el("li", { class: "chip" }, "and " + plural(s.moreMembers, "more cluster"))),
    !s.members.length && el("span", { class: "dim" }, "no cluster"),
    !s.watched && el("span", { class: "dim" }, " not watched, so endpoints are not counted"),
    (s.problems ?? []).map((p) => el("p", { class: "problem" }, p))],
    tiersOf(s),
    s.streams,
  ];
}

function streamCells(s) {
  const where = [s.zone && "zone " + s.zone, s.node && "node " + s.node, s.namespace && "namespace " + s.namespace].filter(Boolean);
  return [
    el("span", { class: "break" }, s.destination), s.method === "Get" ? "endpoints" : "profile", where.join(", ") || el("span", { class: "dim" }, "everywhere"),
    s.method === "Get" ? s.endpoints : "–", s.streams,
  ];
}

const kinds = { cluster: "state", standing: "standing", rotation: "credentials", gateway: "gateway", tier: "tiers", stall: "stall" };

function eventCells(e) {
  return [
    age(e.at),
    [badge(e.problem ? 2 : 0, kinds[e.kind] ?? e.kind), " ", el("strong", { class: "break" }, e.object),
      el("p", {}, e.text, e.count > 1 && el("span", { class: "dim" }, " — " + count(e.count) + " times, first ", age(e.first), " ago"))],
  ];
}

const perPage = 50; // lines per page of a table

const definitions = {
  clusters: {
    noun: "cluster", columns: [["Cluster"], ["State"], ["For"], ["Standing"], ["API server or problem", "wide"]], cells: clusterCells, key: (c) => c.cluster + " " + (c.secret ?? ""),
    empty: "There are no clusters yet.",
  },
  services: {
    noun: "service", columns: [["Service"], ["Condition"], ["Endpoints by cluster", "wide"], ["Tiers in use"], ["Streams", "number"]], cells: serviceCells,
    key: (s) => s.namespace + "/" + s.name,
    empty: "There are no federated or mirrored Services, and proxies do not watch any service. To federate a local Service, use the labels and annotations of Linkerd’s service mirror.",
  },
  streams: {
    noun: "destination", columns: [["Destination", "wide"], ["Watches"], ["Clients"], ["Endpoints", "number"], ["Streams", "number"]], cells: streamCells,
    key: (s) => [s.method, s.destination, s.node, s.zone, s.namespace].join(" "),
    empty: "There are no streams. Proxies open streams when meshed clients connect to services.",
  },
  events: {
    noun: "event", columns: [["Ago"], ["What", "wide"]], cells: eventCells, key: (e) => [e.kind, e.object, e.text].join(" "),
    empty: "There have been no events since the replica started.",
  },
};

const names = Object.keys(definitions);

// Table is one of the tables on the page.
class Table {
  constructor(name, turn) {
    this.definition = definitions[name];
    this.rows = new Map(); // by key: the JSON and the element of a row
    const section = document.getElementById(name);
    const [element, body] = table(section.querySelector("h2").textContent, this.definition.columns);
    this.body = body;
    this.element = element;
    this.empty = el("p", { class: "empty", hidden: true });
    this.where = el("span", { role: "status" });
    this.back = this.button("Previous", name, () => turn(this.page - 1));
    this.next = this.button("Next", name, () => turn(this.page + 1));
    section.append(element, this.empty, el("nav", { class: "pager", "aria-label": "Pages of " + name }, this.back, this.where, this.next));
  }

  button(text, name, action) {
    const b = el("button", { type: "button", "aria-label": text + " page of " + name }, text);
    b.addEventListener("click", action);
    return b;
  }

  show(data) {
    const focused = document.activeElement?.dataset?.focus;
    const rows = new Map();
    for (const line of data.lines) {
      const text = JSON.stringify(line);
      let key = this.definition.key(line);
      while (rows.has(key)) key += "+";
      const old = this.rows.get(key);
      rows.set(key, old?.text === text ? old : { text, element: tableRow(this.definition.columns, this.definition.cells(line), line.severity) });
    }
    this.rows = rows;
    this.place([...rows.values()].map((r) => r.element));
    if (focused && document.activeElement?.dataset?.focus !== focused) {
      [...this.body.querySelectorAll("[data-focus]")].find((e) => e.dataset.focus === focused)?.focus();
    }
    this.showPages(data);
  }

  // place puts the rows into their order and moves as few rows as possible, because a moved row
  // loses the focus.
  place(elements) {
    const wanted = new Set(elements);
    for (const old of [...this.body.children]) if (!wanted.has(old)) old.remove();
    elements.forEach((e, i) => {
      if (this.body.children[i] !== e) this.body.insertBefore(e, this.body.children[i] ?? null);
    });
  }

  showPages(data) {
    this.page = data.page;
    const none = data.lines.length === 0;
    this.element.hidden = none;
    this.empty.hidden = !none;
    this.empty.textContent = data.all === 0 ? this.definition.empty : "None of " + plural(data.all, this.definition.noun) + " matches.";
    const first = (data.page - 1) * perPage + 1;
    const all = plural(data.matching, this.definition.noun) + (data.matching < data.all ? " of " + count(data.all) : "");
    this.where.textContent = none ? "" : data.pages > 1 ? count(first) + "–" + count(first + data.lines.length - 1) + " of " + all : all;
    this.back.hidden = this.next.hidden = data.pages < 2;
    this.back.disabled = data.page <= 1;
    this.next.disabled = data.page >= data.pages;
  }
}

// ---- The viewer's choices, which are part of the page's URL, and the requests for lists.
const every = 1000; // ms between a response and the next request
const patience = 10_000; // timeout of a request, in ms
const silent = "The replica does not respond.";

const query = new URLSearchParams();
const wanted = new URLSearchParams(location.search);
const tables = {};
for (const name of names) {
  const page = wanted.get(name + ".page") ?? "";
  if (/^[1-9]\d{0,4}$/.test(page)) query.set(name + ".page", page);
  tables[name] = new Table(name, (p) => want(name, "page", p > 1 ? String(p) : ""));
  const form = document.querySelector("#" + name + " form");
  for (const field of form.elements) {
    field.value = (wanted.get(name + "." + field.name) ?? "").slice(0, 100);
    if (field.selectedIndex === -1) field.selectedIndex = 0;
    if (field.value) query.set(name + "." + field.name, field.value);
    field.addEventListener("input", () => {
      query.delete(name + ".page");
      want(name, field.name, field.value, field.type === "search" ? 250 : 0);
    });
  }
  form.addEventListener("submit", (e) => e.preventDefault());
}

let asking;

// want changes a choice for a table. If after is set, it waits until the viewer stops typing.
function want(name, parameter, value, after = 0) {
  if (value) query.set(name + "." + parameter, value);
  else query.delete(name + "." + parameter);
  clearTimeout(asking);
  asking = setTimeout(() => {
    const text = query.toString();
    history.replaceState(null, "", text ? "?" + text : location.pathname);
    refresh();
  }, after);
}

// address returns the URL of a list with the viewer's choices.
function address(name) {
  const q = new URLSearchParams({ view: "list", limit: perPage });
  for (const parameter of ["q", "show", "sort", "page"]) {
    const value = query.get(name + "." + parameter);
    if (value) q.set(parameter, value);
  }
  return "debug/" + name + "?" + q;
}

const shown = {}; // by list: its URL, ETag and content

// ask requests a list, shows it if it has changed, and returns whether it has changed.
async function ask(name) {
  const url = address(name);
  const old = shown[name]?.url === url ? shown[name] : undefined;
  const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(patience), headers: old ? { "If-None-Match": old.etag } : {} });
  setClock(answer.headers.get("Date"));
  if (answer.status === 304) return false;
  if (!answer.ok) {
    const text = (await answer.text()).trim().slice(0, 200);
    throw Object.assign(new Error("The replica responded with status " + answer.status + (text ? ": " + text + "." : ".")), { after: Number(answer.headers.get("Retry-After")) * 1000 });
  }
  const list = await answer.json();
  if (url !== address(name)) return false; // the choices have changed meanwhile
  shown[name] = { url, etag: answer.headers.get("ETag"), list };
  tables[name].show(list);
  return true;
}

let refreshes = 0;
let next;

// refresh requests the lists one after the other. While the page is visible, refresh repeats this
// after a while.
async function refresh() {
  clearTimeout(next);
  const mine = ++refreshes;
  let after = every;
  try {
    for (const name of names) {
      if (await ask(name)) showSummary();
      if (mine !== refreshes) return; // a later refresh has started
    }
    report("live", "Live");
  } catch (e) {
    if (mine !== refreshes) return;
    report("lost", ("after" in e ? e.message : silent) + " Trying again. The page may show old data.");
    after = Math.min(Math.max(every, e.after || 0), 30_000);
  }
  showAges();
  if (!document.hidden) next = setTimeout(refresh, after);
}

const connection = document.getElementById("connection");

function report(state, text) {
  connection.dataset.state = state;
  if (connection.textContent !== text) connection.textContent = text;
  document.body.classList.toggle("lost", state === "lost");
}

function figure(name, value, more, severity) {
  return el("div", { class: "figure f" + severity }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), more && el("span", {}, more)));
}

function showSummary() {
  const [clusters, services, streams] = ["clusters", "services", "streams"].map((name) => shown[name]?.list);
  if (!clusters || !services || !streams) return;
  const { replica, states, takenOut } = clusters;
  domain = replica.domain;
  document.title = "Isthmus · " + replica.name;
  document.getElementById("gateway").textContent = replica.name + (replica.ready ? "" : " · not ready") + " · isthmus " + replica.version;
  const list = ["rejected", "unreachable", "stale", "pending"].filter((n) => states[n]).map((n) => count(states[n]) + " " + n);
  if (takenOut) list.push(count(takenOut) + " out of service");
  const bad = states.rejected || states.unreachable || states.stale;
  const partial = services.troubled - services.unserved;
  const troubled = [services.unserved && count(services.unserved) + " without endpoints", partial > 0 && count(partial) + " with problems"].filter(Boolean);
  document.getElementById("summary").replaceChildren(
    figure("Clusters", count(clusters.all), list.join(" · ") || "all ready", bad ? 3 : list.length ? 2 : 0),
    figure("Services", count(services.all), troubled.join(" · ") || "all fine", services.unserved ? 3 : services.troubled ? 2 : 0),
    figure("Streams", count(streams.streams), "to " + plural(streams.all, "kind") + " of clients and destinations", 0),
  );
}

// A hidden page does not send requests.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(next);
  else refresh();
});
setInterval(showAges, 1000);
refresh();
