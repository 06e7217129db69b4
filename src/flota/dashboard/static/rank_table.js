// The same ranks as a table. Only the rows in view exist, however many ranks there are.

import { byId, bytes, count, make, percent, rankName, stepTime } from "./text.js";
import { choose, chosenRank, heatOf, hostOf } from "./heat_map.js";

const view = byId("table-view");
const ROW = 28;
const TITLES = { rank: "rank", seat: "node", state: "state", step: "step", seconds: "step time", bar: "", cpu: "CPUs", memory: "memory", device: "device", use: "in use" };

let snapshot = null;
let order = [];
let sorted = "rank";
let direction = 1;
const rows = new Map(); // those in view, by the number of the rank in the snapshot
const body = make("div", { role: "rowgroup" });

export function startTable() {
  const titles = make("div", { cls: "row titles", role: "row" });
  for (const [name, title] of Object.entries(TITLES)) {
    const cell = make("span", { role: "columnheader", "aria-sort": name === sorted ? "ascending" : "none" });
    if (name === "bar") cell.append(make("span", { cls: "hidden", text: "step time as a bar" }));
    else {
      const button = make("button", { text: title });
      button.addEventListener("click", () => sortBy(name, titles));
      cell.append(button);
    }
    titles.append(cell);
  }
  view.append(titles, body);
  view.addEventListener("scroll", () => showRows(), { passive: true });
  new ResizeObserver(() => showRows()).observe(view);
  view.addEventListener("keydown", onKey);
  body.addEventListener("click", (event) => chooseRow(Number(event.target.closest(".row")?.dataset.index ?? -1)));
}

function sortBy(name, titles) {
  direction = name === sorted ? -direction : ["rank", "seat", "state", "device"].includes(name) ? 1 : -1;
  sorted = name;
  [...titles.children].forEach((cell, number) => cell.setAttribute("aria-sort", Object.keys(TITLES)[number] !== name ? "none" : direction > 0 ? "ascending" : "descending"));
  showTable(snapshot);
}

export function showTable(next) {
  snapshot = next;
  if (view.hidden) return;
  const column = snapshot.ranks[sorted], smallest = -direction * Infinity;
  order = column.map((_, index) => index);
  if (sorted !== "rank" || direction < 0) {
    order.sort((one, other) => {
      const a = column[one] ?? smallest, b = column[other] ?? smallest;
      return (a < b ? -direction : a > b ? direction : 0) || one - other;
    });
  }
  view.setAttribute("aria-rowcount", order.length + 1);
  body.style.height = `${order.length * ROW}px`;
  showRows({ changed: true });
}

function chooseRow(index) {
  choose(index);
  showRows({ changed: true });
  if (rows.has(index)) view.setAttribute("aria-activedescendant", rows.get(index).id);
}

// Keys choose a row and bring it into view, below the titles.
function onKey(event) {
  const page = Math.max(1, Math.floor(view.clientHeight / ROW) - 2);
  const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity };
  if (event.target !== view || !(event.key in steps) || !order.length) return;
  event.preventDefault();
  const number = Math.max(0, Math.min(order.length - 1, order.indexOf(chosenRank()) + steps[event.key]));
  view.scrollTop = Math.max((number + 2) * ROW - view.clientHeight, Math.min(view.scrollTop, number * ROW));
  chooseRow(order[number]);
}

// Rows are kept while they are in view: scrolling makes only those that come into it.
function showRows({ changed = false } = {}) {
  if (!snapshot || view.hidden) return;
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4), last = Math.min(order.length, first + Math.ceil(view.clientHeight / ROW) + 8);
  const wanted = new Map(order.slice(first, last).map((index, place) => [index, first + place]));
  for (const [index, row] of rows) if (!wanted.has(index)) { row.remove(); rows.delete(index); }
  for (const [index, number] of wanted) {
    const known = rows.get(index), row = known ?? makeRow(index);
    if (!known || changed) fillRow(row, index, number);
  }
}

function makeRow(index) {
  const cell = (...children) => make("span", { role: "gridcell" }, ...children);
  const cells = Object.keys(TITLES).map((name) => (name === "state" ? cell(make("i"), "") : name === "bar" ? cell(make("div", { cls: "bar" }, make("i"))) : cell("")));
  const row = make("div", { role: "row", id: `rank-row-${index}`, "data-index": index }, ...cells);
  rows.set(index, row);
  body.append(row);
  return row;
}

function fillRow(row, index, number) {
  const { ranks, progress } = snapshot, seconds = ranks.seconds[index], state = ranks.state[index];
  row.className = `row${index === chosenRank() ? " chosen" : ""}${number % 2 ? "" : " even"}`;
  row.setAttribute("aria-rowindex", number + 2);
  row.setAttribute("aria-selected", String(index === chosenRank()));
  row.style.top = `${(number + 1) * ROW}px`;
  const words = {
    rank: rankName(ranks.role[index], ranks.rank[index]), seat: hostOf(ranks.seat[index]), step: count(ranks.step[index]), seconds: stepTime(seconds),
    cpu: ranks.cpu[index]?.toFixed(1) ?? "–", memory: bytes(ranks.memory[index]), device: ranks.device[index] || "–", use: percent(ranks.use[index]),
  };
  Object.keys(TITLES).forEach((name, place) => {
    const cell = row.children[place];
    if (name === "state") {
      cell.firstChild.className = `dot ${state}`;
      cell.lastChild.data = `${state}${ranks.exit[index] ? ` (${ranks.exit[index]})` : ""}`;
    } else if (name === "bar") {
      const bar = cell.firstChild.firstChild, ratio = seconds && progress.seconds ? seconds / progress.seconds : 0;
      bar.style.width = `${Math.min(100, 50 * ratio)}%`;
      bar.className = ratio && heatOf(seconds, progress.seconds) > 0.5 ? "high" : "";
    } else if (cell.firstChild.data !== words[name]) {
      cell.firstChild.data = words[name];
      cell.title = words[name];
    }
  });
}
