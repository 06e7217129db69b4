// Elements and words. Foreign texts, such as log lines and host names, become text nodes, and never HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, { cls, text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return "–";
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(Math.floor(seconds % 60)).padStart(2, "0")}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h${String(minutes % 60).padStart(2, "0")}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

// A moment on an axis that spans so many seconds.
export function moment(seconds, span) {
  const rest = seconds % 60;
  return seconds < 3600 || span > 900 ? duration(seconds) : `${duration(seconds)}${String(Math.floor(rest)).padStart(2, "0")}s`;
}

export function stepTime(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toPrecision(3)} ms`;
  return seconds < 100 ? `${seconds.toPrecision(3)} s` : duration(seconds);
}

// The time of day, and the day if it is another one.
export function clock(seconds) {
  const at = new Date(seconds * 1000), time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}`;
}

export function count(number) {
  return number === null || number === undefined ? "–" : number.toLocaleString("en-US");
}

export function decimal(number) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number);
  return size !== 0 && (size < 0.001 || size >= 1e6) ? number.toExponential(2) : String(Number(number.toPrecision(4)));
}

export const percent = (number) => (number === null || number === undefined ? "–" : `${Math.round(number)} %`);

export function bytes(number) {
  if (!number) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return `${number < 10 && unit ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

export const rankName = (role, rank) => (role === "trainer" ? `rank ${rank}` : `${role} ${rank}`);

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tip = byId("tip");

export function showTip(text, x, y) {
  setText(tip, text);
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 8 : y + 18}px`;
}

export const hideTip = () => { tip.hidden = true; };
