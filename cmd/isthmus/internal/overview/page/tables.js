// The four tables: what their cells show.
import { age, badge, count, el, plural, stateSeverity, table, tableRow } from "./show.js";
import { openExplain } from "./explain.js";

const standingSeverity = { "in-service": 0, "last-resort": 1, withdrawn: 2 };

function clusterCells(c) {
  const why = [c.reason, c.standingReason, ...(c.warnings ?? [])].filter(Boolean);
  return [
    [el("strong", {}, c.name || "(no name)"), c.region && el("span", { class: "dim" }, " " + c.region)],
    badge(stateSeverity[c.state] ?? 3, c.state),
    age(c.since),
    c.standing ? badge(standingSeverity[c.standing] ?? 2, c.standing) : "–",
    [behind(c), why.map((w) => el("p", {}, w)), !why.length && el("span", { class: "dim" }, c.server ?? "")],
  ];
}

// behind is how a cluster on another network is reached.
function behind(c) {
  const gateways = c.gateways ?? [];
  return c.network && [
    el("p", {}, el("span", { class: "dim" }, "on network "), c.network, el("span", { class: "dim" }, gateways.length ? ", reached through its gateways" : ", and no gateway of it is known")),
    gateways.length > 0 && el("ul", { class: "chips", "aria-label": "Gateways" }, gateways.map(gatewayChip)),
  ];
}

function gatewayChip(g) {
  const dead = g.state === "dead";
  return el("li", { class: "chip" + (dead ? " bad" : "") }, dead && el("span", { "aria-hidden": "true", class: "symbol" }, "✗ "), g.address,
    el("span", { class: dead ? "" : "dim" }, " " + g.state + (g.reason ? ": " + g.reason : "")));
}

function condition(s, severity) {
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

function serviceCells(s, severity) {
  const name = el("button", { type: "button", class: "link", "data-focus": "service " + s.namespace + "/" + s.name, title: "Explain every address" },
    s.namespace + "/" + s.name);
  name.addEventListener("click", () => openExplain(s));
  return [
    [name, s.kind !== "federated" && el("span", { class: "dim" }, " " + s.kind), s.port > 0 && el("span", { class: "dim" }, " :" + s.port)],
    badge(severity, condition(s, severity)),
    [s.members.length > 0 && el("ul", { class: "chips" }, s.members.map((m) => memberChip(m, s.watched)),
      s.moreMembers > 0 && el("li", { class: "chip" }, "and " + plural(s.moreMembers, "more cluster"))),
    !s.members.length && el("span", { class: "dim" }, "no cluster"),
    !s.watched && el("span", { class: "dim" }, " no proxy asks, so endpoints are not counted"),
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

const definitions = {
  clusters: {
    noun: "cluster", columns: [["Cluster"], ["State"], ["For"], ["Standing"], ["API server, or what is wrong", "wide"]], cells: clusterCells, key: (c) => c.name + " " + (c.secret ?? ""),
    empty: "No cluster is known yet.",
  },
  services: {
    noun: "service", columns: [["Service"], ["Condition"], ["Endpoints by cluster", "wide"], ["Tiers in use"], ["Streams", "number"]], cells: serviceCells,
    key: (s) => s.namespace + "/" + s.name,
    empty: "There is no federated or mirrored Service, and no proxy asks for any. A Service of the gateway’s own cluster becomes federated by the labels and annotations of Linkerd’s service mirror.",
  },
  streams: {
    noun: "destination", columns: [["Destination", "wide"], ["Asks for"], ["Clients"], ["Endpoints", "number"], ["Streams", "number"]], cells: streamCells,
    key: (s) => [s.method, s.destination, s.node, s.zone, s.namespace].join(" "),
    empty: "No proxy has a stream. They come once meshed clients talk to something.",
  },
  events: {
    noun: "event", columns: [["Ago"], ["What", "wide"]], cells: eventCells, key: (e) => [e.kind, e.object, e.text].join(" "),
    empty: "Nothing has happened since the gateway started.",
  },
};

export const names = Object.keys(definitions);

// Table is one of the tables on the page.
export class Table {
  constructor(name, turn) {
    this.definition = definitions[name];
    this.rows = new Map(); // by key: the row's JSON and its element
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
    for (const { row, severity } of data.rows) {
      const text = severity + JSON.stringify(row);
      let key = this.definition.key(row);
      while (rows.has(key)) key += "+";
      const old = this.rows.get(key);
      rows.set(key, old?.text === text ? old : { text, element: tableRow(this.definition.columns, this.definition.cells(row, severity), severity) });
    }
    this.rows = rows;
    this.place([...rows.values()].map((r) => r.element));
    if (focused && document.activeElement?.dataset?.focus !== focused) {
      [...this.body.querySelectorAll("[data-focus]")].find((e) => e.dataset.focus === focused)?.focus();
    }
    this.showPages(data);
  }

  // place puts the rows into their order and moves no more than it must: a row that is moved loses
  // the focus.
  place(elements) {
    const wanted = new Set(elements);
    for (const old of [...this.body.children]) if (!wanted.has(old)) old.remove();
    elements.forEach((e, i) => {
      if (this.body.children[i] !== e) this.body.insertBefore(e, this.body.children[i] ?? null);
    });
  }

  showPages(data) {
    this.page = data.page;
    const none = data.rows.length === 0;
    this.element.hidden = none;
    this.empty.hidden = !none;
    this.empty.textContent = data.all === 0 ? this.definition.empty : "None of " + plural(data.all, this.definition.noun) + " matches.";
    const first = (data.page - 1) * 50 + 1;
    const all = plural(data.matching, this.definition.noun) + (data.matching < data.all ? " of " + count(data.all) : "");
    this.where.textContent = none ? "" : data.pages > 1 ? count(first) + "–" + count(first + data.rows.length - 1) + " of " + all : all;
    this.back.hidden = this.next.hidden = data.pages < 2;
    this.back.disabled = data.page <= 1;
    this.next.disabled = data.page >= data.pages;
  }
}
