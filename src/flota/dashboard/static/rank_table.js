// The same ranks as a table. Only the rows in view exist, however many ranks there are.

import { byId, bytes, count, make, rankName, stepTime } from "./text.js";
import { choose, chosenRank, heatOf, hostOf } from "./heat_map.js";

const view = byId("table-view");
const ROW = 28;
const TITLES = { rank: "rank", seat: "node", state: "state", step: "step", seconds: "step time", bar: "", cpu: "CPUs", memory: "memory", device: "device" };

let snapshot = null;
let order = [];
let sorted = "rank";
let direction = 1;
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
  view.addEventListener("scroll", showRows);
  new ResizeObserver(showRows).observe(view);
  body.addEventListener("click", (event) => choose(Number(event.target.closest(".row")?.dataset.index ?? -1)));
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
  showRows();
}

function showRows() {
  if (!snapshot || view.hidden) return;
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4), last = Math.min(order.length, first + Math.ceil(view.clientHeight / ROW) + 8);
  const rows = [];
  for (let number = first; number < last; number += 1) rows.push(rowOf(order[number], number));
  body.replaceChildren(...rows);
}

function rowOf(index, number) {
  const { ranks, progress } = snapshot, seconds = ranks.seconds[index];
  const row = make("div", { cls: `row${index === chosenRank() ? " chosen" : ""}`, role: "row", "aria-rowindex": number + 2, "data-index": index });
  row.style.top = `${(number + 1) * ROW}px`;
  const bar = make("i");
  if (seconds && progress.seconds) {
    bar.style.width = `${Math.min(100, (50 * seconds) / progress.seconds)}%`;
    if (heatOf(seconds, progress.seconds) > 0.5) bar.className = "high";
  }
  const state = make("span", { role: "cell" }, make("i", { cls: `dot ${ranks.state[index]}` }), `${ranks.state[index]}${ranks.exit[index] ? ` (${ranks.exit[index]})` : ""}`);
  const cells = [rankName(ranks.role[index], ranks.rank[index]), hostOf(ranks.seat[index]), state, count(ranks.step[index]), stepTime(seconds)];
  const more = [ranks.cpu[index]?.toFixed(1) ?? "–", bytes(ranks.memory[index]), ranks.device[index] || "–"];
  const asCell = (cell) => (typeof cell === "string" ? make("span", { role: "cell", text: cell, title: cell }) : cell);
  row.append(...cells.map(asCell), make("span", { role: "cell" }, make("div", { cls: "bar" }, bar)), ...more.map(asCell));
  return row;
}
