// What the viewer wants to see, and the connection that brings it.
import { count, el, plural, setClock, showAges } from "./show.js";
import { names, Table } from "./tables.js";
import { setDomain } from "./explain.js";

const quietFor = 40_000; // ms without an event until the connection counts as lost; the gateway sends one each 15 s
const askEvery = 10_000; // ms, while it does not serve this page live
const liveEvery = 30_000; // ms until it is asked again to do so

const query = new URLSearchParams();
for (const [name, value] of new URLSearchParams(location.search)) {
  if (names.includes(name.split(".")[0])) query.set(name, value);
}

const tables = {};
for (const name of names) {
  tables[name] = new Table(name, (page) => want(name, "page", page > 1 ? String(page) : ""));
  const form = document.querySelector("#" + name + " form");
  for (const field of form.elements) {
    field.value = query.get(name + "." + field.name) ?? "";
    if (field.selectedIndex === -1) field.selectedIndex = 0;
    field.addEventListener("input", () => {
      query.delete(name + ".page");
      want(name, field.name, field.value, field.type === "search" ? 250 : 0);
    });
  }
  form.addEventListener("submit", (e) => e.preventDefault());
}

let asking;

// want changes what this page shows of a table, once the viewer has typed nothing for a moment.
function want(name, parameter, value, after = 0) {
  if (value) query.set(name + "." + parameter, value);
  else query.delete(name + "." + parameter);
  clearTimeout(asking);
  asking = setTimeout(() => {
    const text = query.toString();
    history.replaceState(null, "", text ? "?" + text : location.pathname);
    connect();
  }, after);
}

const lostText = "Connection lost: trying again. What is shown may be old.";
const connection = document.getElementById("connection");

function report(state, text) {
  connection.dataset.state = state;
  if (connection.textContent !== text) connection.textContent = text;
  document.body.classList.toggle("lost", state === "lost");
}

let source, watchdog, poll, again;

// connect asks for live changes, in place of what there was.
function connect() {
  disconnect();
  source = new EventSource("page/live?" + query);
  const from = source;
  const onEvent = (e) => {
    if (from !== source) return;
    clearTimeout(watchdog);
    watchdog = setTimeout(lost, quietFor);
    report("live", "Live");
    show(JSON.parse(e.data));
  };
  from.addEventListener("change", onEvent);
  from.addEventListener("tick", onEvent);
  from.addEventListener("error", () => {
    if (from !== source) return;
    if (from.readyState === EventSource.CLOSED) {
      ask();
      again = setTimeout(connect, liveEvery);
    } else {
      report("lost", lostText);
    }
  });
  watchdog = setTimeout(lost, quietFor);
}

function disconnect() {
  source?.close();
  source = undefined;
  for (const t of [watchdog, poll, again]) clearTimeout(t);
}

function lost() {
  report("lost", lostText);
  connect();
}

// ask gets everything once, and then now and then, while the page is not served live.
async function ask() {
  try {
    const answer = await fetch("page/data?" + query);
    if (!answer.ok) throw new Error(answer.statusText);
    show(await answer.json());
    report("slow", "Not live, since too many people look: updated every 10 s.");
  } catch {
    report("lost", lostText);
  }
  clearTimeout(poll);
  poll = setTimeout(ask, askEvery);
}

function show(data) {
  setClock(data.now);
  if (data.summary) showSummary(data.summary);
  for (const name of names) if (data[name]) tables[name].show(data[name]);
  showAges();
}

function figure(name, value, more, severity) {
  return el("div", { class: "figure f" + severity }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), more && el("span", {}, more)));
}

function showSummary(s) {
  setDomain(s.gateway.domain);
  document.title = "Isthmus · " + s.gateway.name;
  document.getElementById("gateway").textContent = s.gateway.name + (s.gateway.ready ? "" : " · not ready") + " · " + s.gateway.version;
  const clusters = Object.values(s.clusters).reduce((a, b) => a + b, 0);
  const states = ["rejected", "unreachable", "stale", "pending"].filter((n) => s.clusters[n]).map((n) => count(s.clusters[n]) + " " + n);
  if (s.takenOut) states.push(count(s.takenOut) + " taken out");
  const bad = s.clusters.rejected || s.clusters.unreachable || s.clusters.stale;
  const troubled = [s.unserved && count(s.unserved) + " get nothing", s.troubled - s.unserved > 0 && count(s.troubled - s.unserved) + " with problems"].filter(Boolean);
  document.getElementById("summary").replaceChildren(
    figure("Clusters", count(clusters), states.join(" · ") || "all ready", bad ? 3 : states.length ? 2 : 0),
    figure("Services", count(s.services), troubled.join(" · ") || "all fine", s.unserved ? 3 : s.troubled ? 2 : 0),
    figure("Streams", count(s.streams), "to " + plural(s.views, "kind") + " of clients and destinations", 0),
  );
}

// A page that nobody sees costs the gateway nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else connect();
});
setInterval(showAges, 1000);
connect();
