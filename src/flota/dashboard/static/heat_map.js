// All ranks on one canvas, grouped by node, coloured by their step time. One drawing a frame at most.

import { byId, colour, hideTip, percent, rankName, setText, showTip, stepTime, count, bytes } from "./text.js";

const canvas = byId("map");
const SIZES = [[16, 44], [64, 34], [160, 24], [400, 18], [1100, 13], [4000, 9], [Infinity, 6]]; // up to so many ranks: pixels
const LABEL = 18, GUTTER = 72, MANY_NODES = 48;
const SLOW = 2; // times the median: the hottest colour

let snapshot = null;
let cells = []; // x and y of each rank
let labels = [];
let size = 30;
let columnsOfGrid = 1;
let hovered = -1;
let palette = {};
let waiting = false;
let chosen = -1;
export const chosenRank = () => chosen;
let onChosen = () => {};

export function startMap(whenChosen) {
  onChosen = whenChosen;
  readPalette();
  new ResizeObserver(() => { arrange(); draw(); }).observe(byId("map-scroll"));
  canvas.addEventListener("pointermove", (event) => hover(find(event), event));
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("click", (event) => choose(find(event)));
  canvas.addEventListener("keydown", onKey);
}

export function readPalette() {
  const names = ["heat-0", "heat-1", "heat-2", "heat-3", "idle", "done", "text", "muted", "panel", "accent"];
  palette = Object.fromEntries(names.map((name) => [name, colour(`--${name}`)]));
  palette.heat = [0, 1, 2, 3].map((number) => channels(palette[`heat-${number}`]));
  palette.table = Array.from({ length: 64 }, (_, number) => mixed(number / 63));
  draw();
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixed(share) {
  const at = Math.min(2.999, share * 3), low = palette.heat[Math.floor(at)], high = palette.heat[Math.floor(at) + 1];
  return `rgb(${low.map((one, number) => Math.round(one + (high[number] - one) * (at % 1))).join(",")})`;
}

export function showMap(next) {
  const same = snapshot && snapshot.ranks.rank.length === next.ranks.rank.length && String(snapshot.ranks.seat) === String(next.ranks.seat);
  snapshot = next;
  if (!same) arrange();
  describe();
  draw();
}

// Blocks of one node each, side by side; their width is the same, so that nodes stand in columns. With many nodes, only
// the first of each line has its name.
function arrange() {
  if (!snapshot) return;
  const seats = snapshot.ranks.seat, all = Math.max(120, byId("map-scroll").clientWidth);
  const groups = new Map();
  seats.forEach((seat, index) => groups.set(seat, [...(groups.get(seat) || []), index]));
  const single = groups.size <= 1, many = groups.size > MANY_NODES, largest = Math.max(1, ...[...groups.values()].map((one) => one.length));
  const gap = single ? 0 : many ? 8 : 16, gutter = many ? GUTTER : 0, above = single || many ? 0 : LABEL, width = all - gutter;
  size = SIZES.find(([most]) => seats.length <= most)[1];
  const fits = Math.max(1, Math.floor(width / size)); // cells side by side
  columnsOfGrid = single ? fits : Math.min(largest, fits, 16);
  const perRow = Math.max(1, Math.min(groups.size, Math.floor((width + gap) / (columnsOfGrid * size + gap))));
  // Use the rest of the width, but not for a few huge cells.
  size = Math.min(Math.floor(size * 1.35), Math.floor((width + gap - gap * perRow) / (perRow * columnsOfGrid)));
  const height = Math.ceil(largest / columnsOfGrid) * size + above + (single ? 0 : 8);
  cells = new Array(seats.length);
  labels = [];
  [...groups.entries()].forEach(([seat, members], number) => {
    const left = gutter + (number % perRow) * (columnsOfGrid * size + gap), top = Math.floor(number / perRow) * height;
    if (many && number % perRow === 0) labels.push([0, top + size * 0.75, hostOf(seat), GUTTER - 8]);
    else if (!many && !single) labels.push([left, top + 12, hostOf(seat), columnsOfGrid * size]);
    members.forEach((index, place) => {
      cells[index] = [left + (place % columnsOfGrid) * size, top + above + Math.floor(place / columnsOfGrid) * size];
    });
  });
  const used = Math.ceil(groups.size / perRow) * height || size;
  const scale = devicePixelRatio || 1;
  canvas.width = all * scale;
  canvas.height = used * scale;
  canvas.style.width = `${all}px`;
  canvas.style.height = `${used}px`;
}

export const hostOf = (seat) => snapshot.nodes.find((node) => node.seat === seat)?.host ?? `node ${seat}`;

export function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; paint(); });
}

function paint() {
  if (!snapshot || !cells.length) return;
  const { ranks, progress } = snapshot, scale = devicePixelRatio || 1, pen = canvas.getContext("2d");
  const side = size - Math.max(1, Math.round(size / 10)), corner = Math.min(6, side / 5);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = palette.muted;
  pen.font = "11px system-ui, sans-serif";
  for (const [x, y, text, room] of labels) pen.fillText(shortened(pen, text, room), x, y);
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  cells.forEach(([x, y], index) => {
    const state = ranks.state[index];
    pen.fillStyle = fillOf(state, ranks.seconds[index], progress.seconds);
    pen.beginPath();
    if (corner < 2) pen.rect(x, y, side, side); else pen.roundRect(x, y, side, side, corner);
    pen.fill();
    if (state === "failed") cross(pen, x, y, side);
    else if (side >= 28) {
      pen.fillStyle = palette.text;
      pen.fillText(ranks.rank[index], x + side / 2, y + side / 2 + 4);
    }
  });
  pen.textAlign = "start";
  for (const [index, name] of [[hovered, "muted"], [chosen, "text"]]) {
    if (!cells[index]) continue;
    pen.strokeStyle = palette[name];
    pen.lineWidth = 2;
    pen.strokeRect(cells[index][0], cells[index][1], side, side);
  }
}

function shortened(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  while (text.length > 1 && pen.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}

// Failed ranks have a cross, for those who do not see colours as others do.
function cross(pen, x, y, side) {
  const inset = side * 0.3;
  pen.strokeStyle = palette.panel;
  pen.lineWidth = Math.max(1.5, side / 14);
  pen.beginPath();
  pen.moveTo(x + inset, y + inset); pen.lineTo(x + side - inset, y + side - inset);
  pen.moveTo(x + side - inset, y + inset); pen.lineTo(x + inset, y + side - inset);
  pen.stroke();
}

function fillOf(state, seconds, middle) {
  if (state === "failed") return palette["heat-3"];
  if (snapshot.live && (state === "done" || state === "stopped")) return palette.done; // others still run
  return seconds && middle ? palette.table[Math.round(63 * heatOf(seconds, middle))] : state === "running" || state === "starting" ? palette.idle : palette.done;
}

// The median is a third of the way from the coolest colour to the hottest.
export function heatOf(seconds, middle) {
  const ratio = seconds / middle;
  return ratio <= 1 ? Math.max(0, (ratio - 0.5) / 0.5) / 3 : Math.min(1, 1 / 3 + ((ratio - 1) / (SLOW - 1)) * (2 / 3));
}

function find(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  return cells.findIndex(([left, top]) => x >= left && x < left + size && y >= top && y < top + size);
}

function hover(index, event) {
  if (index !== hovered) { hovered = index; draw(); }
  if (index < 0) hideTip(); else showTip(inWords(index).join("\n"), event.clientX, event.clientY);
}

export function choose(index) {
  if (!snapshot || index < 0 || index >= snapshot.ranks.rank.length) return;
  chosen = index;
  describe();
  draw();
  onChosen(snapshot.ranks.role[index], snapshot.ranks.rank[index]);
}

function onKey(event) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columnsOfGrid, ArrowDown: columnsOfGrid, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || !cells.length) return;
  event.preventDefault();
  choose(Math.max(0, Math.min(cells.length - 1, (chosen < 0 ? -Math.sign(steps[event.key]) : chosen) + steps[event.key])));
}

export function inWords(index) {
  const { ranks, progress } = snapshot, seconds = ranks.seconds[index];
  const against = seconds && progress.seconds ? ` (${(seconds / progress.seconds).toFixed(2)} × median)` : "";
  const code = ranks.exit[index] === null ? "" : `, exit code ${ranks.exit[index]}`;
  return [
    `${rankName(ranks.role[index], ranks.rank[index])} on ${hostOf(ranks.seat[index])}`,
    `${ranks.state[index]}${code}`,
    ...(ranks.step[index] === null ? [] : [`step ${count(ranks.step[index])}`]),
    ...(seconds ? [`${stepTime(seconds)} per step${against}`] : []),
    ...(ranks.cpu[index] === null ? [] : [`${ranks.cpu[index].toFixed(1)} CPUs, ${bytes(ranks.memory[index])}`]),
    ...(ranks.device[index] ? [`device ${ranks.device[index]}${ranks.use[index] === null ? "" : `, ${percent(ranks.use[index])} in use`}`] : []),
    ...(ranks.beat[index] > 10 ? [`last heartbeat ${Math.round(ranks.beat[index])} s ago`] : []),
  ];
}

function describe() {
  if (chosen >= 0 && chosen < snapshot.ranks.rank.length) setText(byId("rank-detail"), inWords(chosen).join(" · "));
  const failed = snapshot.ranks.state.filter((state) => state === "failed").length;
  const label = `${snapshot.ranks.rank.length} ranks${failed ? `, ${failed} failed` : ""}; arrow keys select a rank`;
  if (canvas.getAttribute("aria-label") !== label) canvas.setAttribute("aria-label", label);
}
