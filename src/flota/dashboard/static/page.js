// The page of one job: takes snapshots from the server, and passes them to the views.

import { byId, bytes, clock, count, decimal, duration, make, setText, stepTime } from "./text.js";
import { act, curves, follow, isFile, logIn, stacks, timeline } from "./source.js";
import { draw, readPalette, showMap, startMap } from "./heat_map.js";
import { showTable, startTable } from "./rank_table.js";
import { Curve } from "./curve.js";
import { showTimeline } from "./time_line.js";
import { chooseLog, showRanks, startLogs } from "./log_view.js";

const TIMELINE_PERIOD = 5000, CURVES_PERIOD = 2000;
const charts = new Map();
let newest = null;
let timelineOf = "";
let timelineAt = -Infinity;
let curvesAt = -Infinity;
let nodesShown = "";
let ledgerShown = "";

// Light and dark: the choice of the system, or of the reader.
const system = matchMedia("(prefers-color-scheme: dark)");
function setTheme() {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? (system.matches ? "dark" : "light");
  readPalette();
  charts.forEach((chart) => chart.draw());
}
system.addEventListener("change", setTheme);
byId("theme").addEventListener("click", () => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  setTheme();
});

const cardsByName = new Map();

function card(name, value, more = "", { share = null, warn = false } = {}) {
  if (!cardsByName.has(name)) {
    const bar = make("div", { cls: "bar", role: "progressbar", "aria-label": name }, make("i"));
    cardsByName.set(name, make("div", { cls: "card" }, make("div", { cls: "name", text: name }), make("div", { cls: "value" }), make("div", {}), bar));
  }
  const element = cardsByName.get(name), [, shown, below, bar] = element.children;
  setText(shown, value);
  setText(below, more);
  below.className = `more${warn ? " warn" : ""}`;
  bar.hidden = share === null;
  bar.setAttribute("aria-valuenow", Math.round(share * 100));
  bar.firstChild.style.width = `${Math.max(0, Math.min(100, share * 100))}%`;
  return element;
}

const sparesInWords = ({ spares = [] }) => (spares.length ? ` and ${count(spares.length)} spare${spares.length === 1 ? "" : "s"}` : "");

function showCards({ job, progress, ranks, nodes, ledger, live }) {
  const cards = [];
  const states = Object.entries(ranks.state.reduce((all, state) => ({ ...all, [state]: (all[state] || 0) + 1 }), {}));
  if (progress.step !== null && progress.step !== undefined) {
    const share = progress.total ? progress.step / progress.total : null;
    cards.push(card("Step", count(progress.step), progress.total ? `of ${count(progress.total)}, ${(share * 100).toFixed(1)} %` : "", { share }));
    if (live && progress.eta !== null) cards.push(card("Time left", duration(progress.eta), `until about ${clock(job.now + progress.eta)}`));
    const spread = progress.slowest && progress.seconds ? progress.slowest / progress.seconds : 1;
    cards.push(card("Step time", stepTime(progress.seconds), spread > 1.2 ? `slowest ${stepTime(progress.slowest)}` : progress.seconds ? `${decimal(1 / progress.seconds)} steps/s` : "", { warn: spread > 1.5 }));
  }
  for (const [name, value] of Object.entries(progress.numbers || {}).filter(([name]) => name === "loss")) cards.push(card(name, decimal(value), "mean of all ranks"));
  if (ledger && ledger.goodput !== null && ledger.goodput !== undefined) cards.push(card("Goodput", `${(ledger.goodput * 100).toFixed(1)} %`, ledger.unknown_ranks ? `without ${count(ledger.unknown_ranks)} unknown ranks` : "of the time in steps that counted", { share: ledger.goodput }));
  cards.push(card("Ranks", count(ranks.rank.length || job.world_size), `on ${count(nodes.length)} node${nodes.length === 1 ? "" : "s"}${sparesInWords(job)}: ` + states.map(([state, number]) => `${count(number)} ${state}`).join(", "), { warn: states.some(([state]) => state === "failed") }));
  const restarts = job.restarts.length;
  cards.push(card("Restarts", job.restart_limit ? `${restarts} of ${job.restart_limit}` : count(restarts), restarts ? job.restarts.at(-1).reason : "", { warn: restarts > 0 }));
  cards.push(card(live ? "Running for" : "Ran for", duration(job.now - job.began), `since ${clock(job.began)}`));
  if (cards.some((one, number) => byId("cards").children[number] !== one) || cards.length !== byId("cards").children.length) byId("cards").replaceChildren(...cards);
}

function showHead({ job, live, missing }) {
  const title = `${job.id} – flota`;
  if (document.title !== title) document.title = title;
  setText(byId("job"), job.id);
  setText(byId("state"), job.state + (job.exit_code ? `, exit code ${job.exit_code}` : ""));
  byId("state").className = `pill ${job.state}`;
  setText(byId("about"), [job.command, job.log_dir].filter(Boolean).join("  ·  "));
  byId("about").title = byId("about").textContent;
  for (const id of ["restart", "stop"]) byId(id).hidden = !live || isFile;
  byId("stacks-panel").hidden = !live;
  const silent = missing.map((one) => `${one.host}: ${one.why}`).join("; ");
  notify([job.message, silent && `no answer from ${silent}`].filter(Boolean).join("; "));
}

function notify(words, bad = false) {
  byId("notice").hidden = !words;
  byId("notice").className = `notice${bad ? " bad" : ""}`;
  setText(byId("notice"), words);
}

function setMeter(cell, share, words) {
  if (!cell.firstChild) cell.append(make("div"), make("div", { cls: "bar" }, make("i")));
  setText(cell.firstChild, words);
  const bar = cell.lastChild.firstChild;
  bar.className = share > 0.9 ? "high" : "";
  bar.style.width = `${Math.min(100, share * 100)}%`;
}

// Rows are kept and changed: a button that is replaced would lose the focus.
function nodeRow(node) {
  const cells = ["host", "state", "ranks", "load", "memory", "actions"].map(() => make("td"));
  cells[0].append(make("div", { cls: "host" }), make("div", { cls: "note" }));
  cells[1].append(make("span"));
  const drain = make("button", { text: "Drain", "aria-label": `Drain ${node.host}` });
  drain.addEventListener("click", () => confirmAct("drain", `Drain ${node.host}?`, "The node leaves the job. The others go on without it, if the job is elastic or restarts are on.", node.seat));
  cells[5].append(drain);
  return make("tr", {}, ...cells);
}

function showNodes({ job, nodes, live }) {
  setText(byId("nodes-note"), count(nodes.length) + sparesInWords(job));
  const shown = [...nodes, ...(job.spares ?? []).map((host) => ({ seat: -1, host, state: "spare", ranks: 0 }))];
  const names = String(shown.map((node) => [node.seat, node.host]));
  if (names !== nodesShown) byId("nodes").replaceChildren(...shown.map(nodeRow));
  nodesShown = names;
  shown.forEach((node, number) => {
    const [host, state, ranks, load, memory, actions] = byId("nodes").rows[number].cells;
    setText(host.firstChild, node.host || `node ${node.seat}`);
    setText(host.lastChild, node.address || "");
    setText(state.firstChild, node.state || "–");
    state.firstChild.className = node.state ? `pill ${node.state}` : "";
    setText(ranks, count(node.ranks));
    if (node.cpus) setMeter(load, node.load / node.cpus, `${node.load.toFixed(1)} on ${node.cpus} CPUs`); else setText(load, "–");
    if (node.memory) setMeter(memory, node.memory_used / node.memory, `${bytes(node.memory_used)} of ${bytes(node.memory)}`); else setText(memory, "–");
    actions.firstChild.hidden = !live || nodes.length < 2 || node.seat < 0;
  });
}

// Steps are good; what was lost is red; all else is between.
const LABELS = { step: "--heat-1", "lost work": "--heat-3", hang: "--heat-3", stalled: "--heat-2", checkpoint: "--curve-2", restart: "--warn" };

function showLedger({ ledger }) {
  const spent = Object.entries(ledger?.seconds ?? {}).filter(([, seconds]) => seconds > 0), total = spent.reduce((sum, [, seconds]) => sum + seconds, 0);
  byId("ledger-panel").hidden = !total;
  if (!total || JSON.stringify(spent) === ledgerShown) return;
  ledgerShown = JSON.stringify(spent);
  setText(byId("ledger-note"), ledger.goodput === null ? "no steps reported" : `${(ledger.goodput * 100).toFixed(1)} % in steps that counted`);
  const painted = (tag, label, width, words) => {
    const element = make(tag, words ? { text: words } : {});
    element.style.setProperty("--label", `var(${LABELS[label] ?? "--done"})`);
    if (width) element.style.width = `${width * 100}%`;
    return element;
  };
  byId("ledger-bar").replaceChildren(...spent.map(([label, seconds]) => painted("i", label, seconds / total)));
  byId("ledger").replaceChildren(...spent.map(([label, seconds]) => painted("li", label, 0, `${label} ${((100 * seconds) / total).toFixed(1)} %`)));
}

async function showCurves(snapshot, now) {
  if (now - curvesAt < CURVES_PERIOD || document.hidden) return;
  curvesAt = now;
  const data = await curves();
  const numbers = Object.keys(data.values).filter((name) => name.startsWith("number:"));
  const ordered = numbers.sort((one, other) => (other === "number:loss") - (one === "number:loss") || one.localeCompare(other));
  if (data.values.seconds && !charts.has("seconds")) charts.set("seconds", new Curve(byId("curves"), "Step time", [["seconds", "median", "--curve-1"]], { band: ["fastest", "slowest"], format: stepTime, note: "fastest to slowest rank" }));
  for (const name of ordered) if (!charts.has(name)) charts.set(name, new Curve(byId("curves"), name.slice(7), [[name, "mean", "--curve-2"]], { format: decimal }));
  charts.forEach((chart) => chart.show(data, snapshot.job.began));
}

// Read again when something happened, and now and then: the bar of the running round grows.
async function showEvents(snapshot, now) {
  const { job, live, ranks } = snapshot;
  const key = [job.round, job.state, job.restarts.length, live, ranks.state.filter((state) => state === "failed").length].join();
  if ((key === timelineOf && now - timelineAt < TIMELINE_PERIOD) || document.hidden) return;
  [timelineOf, timelineAt] = [key, now];
  showTimeline(await timeline(), job, live);
}

function showLegend({ progress, job, ranks }) {
  byId("legend-text").parentElement.hidden = !progress.seconds;
  setText(byId("legend-range"), progress.seconds ? `½ × to 2 ×, median ${stepTime(progress.seconds)}` : "");
  const slow = job.slow.map((one) => `${one.role === "trainer" ? "rank" : one.role} ${one.rank} (${one.factor.toFixed(1)} ×)`);
  setText(byId("ranks-note"), slow.length ? `slow: ${slow.slice(0, 4).join(", ")}${slow.length > 4 ? ` and ${slow.length - 4} more` : ""}` : `${count(ranks.rank.length)}`);
}

function onSnapshot(snapshot) {
  newest = snapshot;
  showHead(snapshot);
  showCards(snapshot);
  showLegend(snapshot);
  showMap(snapshot);
  showTable(snapshot);
  showNodes(snapshot);
  showRanks(snapshot);
  showLedger(snapshot);
  byId("report-panel").hidden = !snapshot.report;
  if (snapshot.report) setText(byId("report"), snapshot.report.join("\n"));
  const now = performance.now(), quietly = () => {};
  showCurves(snapshot, now).catch(quietly);
  showEvents(snapshot, now).catch(quietly);
}

function confirmAct(verb, title, words, seat = -1) {
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), words);
  setText(byId("confirm-yes"), verb[0].toUpperCase() + verb.slice(1));
  byId("confirm").showModal();
  byId("confirm-no").onclick = () => byId("confirm").close();
  byId("confirm-yes").onclick = async () => {
    byId("confirm").close();
    try {
      notify((await act(verb, seat)).message);
    } catch (error) {
      notify(error.message, true);
    }
  };
}

byId("stop").addEventListener("click", () => confirmAct("stop", "Stop the job?", "Ranks that can save are asked to save at the same step. All others get SIGTERM and the grace period."));
byId("restart").addEventListener("click", () => confirmAct("restart", "Restart all workers?", "All workers of the job are stopped and started again."));

function switchView(table) {
  byId("map-view").hidden = table;
  byId("table-view").hidden = !table;
  byId("show-map").setAttribute("aria-pressed", String(!table));
  byId("show-table").setAttribute("aria-pressed", String(table));
  if (newest) { showTable(newest); draw(); }
}
byId("show-map").addEventListener("click", () => switchView(false));
byId("show-table").addEventListener("click", () => switchView(true));

byId("take-stacks").addEventListener("click", async () => {
  const button = byId("take-stacks");
  button.disabled = true;
  setText(byId("stacks-note"), "reading the stacks of all ranks …");
  try {
    const { lines } = await stacks();
    const found = lines.filter((line) => !line.startsWith("====="));
    const end = found.indexOf("") < 0 ? found.length : found.indexOf("");
    byId("stack-groups").replaceChildren(...found.slice(0, end).map((line) => make("li", { text: line })));
    byId("stack-all").hidden = end >= found.length;
    setText(byId("stack-text"), found.slice(end + 1).join("\n"));
    setText(byId("stacks-note"), `taken at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    setText(byId("stacks-note"), error.message);
  }
  button.disabled = false;
});

startMap(chooseLog);
startTable();
setTheme();
try {
  await logIn();
} catch (error) {
  notify(error.message, true);
}
startLogs();
follow(onSnapshot, notify);
