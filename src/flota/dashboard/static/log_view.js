// Lines of one rank, or of all ranks with equal lines folded.

import { byId, make, rankName, setText } from "./text.js";
import { foldedLines, isFile, logLines } from "./source.js";

const list = byId("log"), rankChoice = byId("log-rank"), search = byId("log-search"), followBox = byId("log-follow"), note = byId("log-note");
const MOST_LINES = 2000, TAIL = -128 * 1024, PERIOD = 1000, FOLDED_PERIOD = 4000;
const HEADER = "===== flota: ";

let lines = []; // { who, text }
let next = null;
let shown = "";
let live = true;
let inView = false;
let known = "";
let choices = new Map(); // by the value of the option: role, rank and the number of the file
let number = 0; // of the choice: an answer to an earlier one is dropped

export function startLogs() {
  rankChoice.addEventListener("change", reset);
  search.addEventListener("input", show);
  followBox.addEventListener("change", () => { if (followBox.checked) { show(); list.scrollTop = list.scrollHeight; } });
  list.addEventListener("wheel", (event) => { if (event.deltaY < 0) followBox.checked = false; }, { passive: true });
  new IntersectionObserver((entries) => { inView = entries.at(-1).isIntersecting; }).observe(list);
  load();
}

export function showRanks(snapshot) {
  live = snapshot.live;
  if (isFile) return; // it has only folded lines
  const { rank: ranks, role: roles, logs } = snapshot.ranks;
  const names = ranks.map((rank, index) => [roles[index], rank, ...(logs[index] ?? [])]);
  if (JSON.stringify(names) === known) return;
  known = JSON.stringify(names);
  const before = rankChoice.value;
  choices = new Map(names.flatMap(([role, rank, ...files]) => (files.length ? files : [""]).map((name, file) => [`${role} ${rank}${file ? ` ${file}` : ""}`, { role, rank, file, name }])));
  const options = [...choices].map(([value, { role, rank, name }]) => make("option", { value, text: `${rankName(role, rank)}${name ? `, ${name}` : ""}` }));
  rankChoice.replaceChildren(make("option", { value: "", text: "all ranks, folded" }), ...options);
  rankChoice.value = before;
  if (rankChoice.selectedIndex < 0) { rankChoice.selectedIndex = 0; reset(); }
}

export function chooseLog(role, rank) {
  if (isFile) return;
  rankChoice.value = `${role} ${rank}`;
  reset();
}

function reset() {
  number += 1;
  lines = [];
  next = null;
  shown = "";
  followBox.checked = true;
  load(number);
}

async function load(of = number) {
  if (of !== number) return;
  const choice = rankChoice.value;
  if (!lines.length || (inView && !document.hidden)) {
    try {
      const found = choice ? await oneRank(choice) : await allRanks();
      if (of !== number) return;
      lines = found;
      setText(note, "");
      show();
    } catch (error) {
      if (of === number) setText(note, error.message);
    }
  }
  if (live) setTimeout(() => load(of), choice ? PERIOD : FOLDED_PERIOD);
}

async function oneRank(choice) {
  const part = await logLines(choices.get(choice), next ?? TAIL);
  next = part.next;
  return [...lines, ...part.lines.map((text) => ({ who: "", text }))].slice(-MOST_LINES);
}

async function allRanks() {
  const part = await foldedLines();
  return part.lines.map(({ text, ranks }) => ({ who: ranks.length ? ranksInWords(ranks) : "", text, all: ranks.join(", ") }));
}

// For example `0-63 ×64`.
function ranksInWords(ranks) {
  if (ranks.length === 1) return ranks[0];
  const numbers = ranks.map(Number);
  const isRange = numbers.every((one, index) => !index || one === numbers[index - 1] + 1);
  return `${isRange ? `${ranks[0]}-${ranks.at(-1)}` : `${ranks[0]}, …`} ×${ranks.length}`;
}

function makePattern() {
  const words = search.value;
  const isPattern = words.length > 2 && words.startsWith("/") && words.endsWith("/");
  try {
    return words && new RegExp(isPattern ? words.slice(1, -1) : words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  } catch {
    return null; // not complete yet
  }
}

function show() {
  const pattern = makePattern();
  if (pattern === null) return;
  const found = pattern ? lines.filter(({ text }) => text.search(pattern) >= 0) : lines;
  const key = `${rankChoice.value}\n${search.value}\n${found.length}\n${found.at(-1)?.text}\n${found.at(-1)?.who}\n${found[0]?.text}`;
  if (key === shown) return;
  if (!followBox.checked && shown && key.split("\n")[1] === shown.split("\n")[1]) return; // the user reads
  shown = key;
  list.replaceChildren(...found.slice(-MOST_LINES).map((line) => rowOf(line, pattern)));
  if (pattern) setText(note, `${found.length} of ${lines.length} lines`);
  if (followBox.checked) list.scrollTop = list.scrollHeight;
}

function rowOf({ who, text, all }, pattern) {
  const cls = text.startsWith(HEADER) ? "header" : /^Traceback |^\w*(Error|Exception)\b/.test(text) ? "bad" : "";
  const row = make("li", { cls });
  if (!rankChoice.value) row.append(make("span", { cls: "who", text: who, title: all }));
  row.append(marked(text || " ", pattern));
  return row;
}

function marked(text, pattern) {
  const whole = make("span");
  let from = 0;
  for (const match of pattern ? text.matchAll(pattern) : []) {
    if (!match[0]) continue;
    whole.append(text.slice(from, match.index), make("mark", { text: match[0] }));
    from = match.index + match[0].length;
  }
  whole.append(text.slice(from));
  return whole;
}
