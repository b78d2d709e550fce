// The dialog that explains a service: what becomes of each address.
import { age, badge, count, el, plural, stateSeverity, table, tableRow } from "./show.js";

const most = 200; // addresses that are shown
const dialog = document.getElementById("explain");
const answer = document.getElementById("explanation");
const form = dialog.querySelector("form");

let domain = "cluster.local";
let service;
let request = 0;

export function setDomain(d) {
  domain = d;
}

// openExplain asks why, for a service of the table.
export function openExplain(s) {
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

function address() {
  const f = form.elements;
  const q = new URLSearchParams({ authority: service.name + "." + service.namespace + ".svc." + domain + ":" + (f.port.value || 80) });
  const token = {};
  if (f.namespace.value.trim()) token.ns = f.namespace.value.trim();
  if (f.node.value.trim()) token.nodeName = f.node.value.trim();
  if (Object.keys(token).length) q.set("token", JSON.stringify(token));
  return "debug/explain?" + q;
}

async function explain() {
  const mine = ++request;
  const url = address();
  answer.replaceChildren(el("p", { class: "dim" }, "Asking…"));
  let shown;
  try {
    const got = await fetch(url);
    shown = got.ok ? explanation(await got.json(), url) : [el("p", { class: "notice", role: "alert" }, (await got.text()).trim())];
  } catch {
    shown = [el("p", { class: "notice", role: "alert" }, "The gateway does not answer.")];
  }
  if (mine === request) answer.replaceChildren(...shown);
}

function explanation(x, url) {
  return [
    el("p", { class: "lead" }, x.refused ? badge(3, "a new stream is refused: " + x.refused) :
      badge(x.set.endpoints ? 0 : 2, x.set.endpoints ? "served: " + plural(x.set.endpoints, "endpoint") : "no endpoint is served"),
      x.set.changed && [" changed ", age(x.set.changed), " ago" + (x.set.origin ? " by " + x.set.origin : "")]),
    el("p", { class: "dim" }, x.authority, clientText(x.client)),
    (x.problems ?? []).map((p) => el("p", { class: "notice" }, p)),
    x.preference && el("p", {}, "Prefers " + x.preference.prefer + "; min-ready " + x.preference.minReady + "."),
    x.tiers && el("p", {}, "Tiers: " + x.tiers.tiers.map((t) => t.tier + (t.inUse ? " (in use, " : " (") + count(t.ready) + " ready, " + count(t.sent) + " sent)").join(", ") + ". " + x.tiers.why),
    members(x.members), verdicts(x), addresses(x), held(x),
    el("p", {}, el("a", { href: url }, "All of it as JSON")),
  ].flat().filter(Boolean);
}

function clientText(c) {
  const parts = [c.namespace && "in namespace " + c.namespace, c.node && "on node " + c.node, c.zone && "in zone " + c.zone].filter(Boolean);
  return parts.length ? " for a client " + parts.join(", ") : " for a client that shows neither node nor namespace";
}

function members(list) {
  const columns = [["Cluster"], ["Service", "name"], ["State"], ["Standing"], ["Changed"], ["Why", "wide"]];
  const [element, body] = table("Members", columns);
  for (const m of list) {
    body.append(tableRow(columns, [el("strong", {}, m.cluster), m.service, badge(m.reason ? 3 : stateSeverity[m.state] ?? 3, m.state), m.standing, m.changed ? [age(m.changed), " ago"] : "–",
      [m.reason && el("p", {}, m.reason), m.standingReason && el("p", {}, m.standingReason)]], m.reason ? 3 : 0));
  }
  return [el("h3", {}, "Members"), list.length ? element : el("p", { class: "empty" }, "No cluster is a member of it.")];
}

function verdicts(x) {
  const list = Object.entries(x.verdicts).sort((a, b) => (b[0] === "served") - (a[0] === "served") || b[1] - a[1]);
  if (!list.length) return [];
  return [el("h3", {}, "Addresses"), el("ul", { class: "chips", "aria-label": "How many addresses have which verdict" },
    list.map(([verdict, n]) => el("li", { class: "chip" + (verdict === "served" ? " good" : "") }, verdict + " " + count(n))))];
}

// behindGateway is no fault: such addresses are reached, through gateways that are in the list.
const behindGateway = "behind-a-gateway";

function verdictSeverity(verdict) {
  if (verdict === "served") return 0;
  return verdict === behindGateway ? 1 : 2;
}

// standsFor is what has an address, and where the cluster has it from.
function standsFor(a) {
  if (a.slice === "gateways") return "Gateway of " + a.cluster;
  return [a.target ?? "–", el("span", { class: "dim" }, " " + a.slice)];
}

// addresses has those with a problem first, and those behind gateways last: there may be many.
function addresses(x) {
  if (!x.addresses.length) return el("p", { class: "empty" }, "No member knows any address.");
  const columns = [["Address", "name"], ["Verdict", "wide"], ["Cluster"], ["Stands for", "wide"], ["Zone", "name"]];
  const [element, body] = table("Addresses", columns);
  const rank = (a) => ({ served: 1, [behindGateway]: 2 })[a.verdict] ?? 0;
  const list = x.addresses.toSorted((a, b) => rank(a) - rank(b));
  for (const a of list.slice(0, most)) {
    const severity = verdictSeverity(a.verdict);
    body.append(tableRow(columns, [el("code", {}, a.address), [badge(severity, a.verdict), a.detail && el("p", {}, a.detail)], a.cluster,
      standsFor(a), [a.zone ?? "–", a.tier && el("span", { class: "dim" }, " tier " + a.tier)]], severity));
  }
  const rest = list.length - most + (x.moreAddresses ?? 0);
  return [element, list.length > most && el("p", { class: "dim" }, "and " + plural(Math.max(0, rest), "more address", "more addresses"))];
}

function held(x) {
  const sum = (of) => x.streams.reduce((n, v) => n + (v[of] ?? 0), 0);
  if (!sum("streams")) return el("p", {}, "No proxy has a stream of it.");
  const late = [sum("waiting") && count(sum("waiting")) + " wait for a first message", sum("slow") && count(sum("slow")) + " are slow"].filter(Boolean);
  return el("p", {}, "Proxies have " + plural(sum("streams"), "stream") + " of it: " + count(sum("upToDate")) + " with the newest endpoints" + late.map((l) => ", " + l).join("") + ".");
}
