/** Numbers as text, with their units. */

const SECONDS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
];

/** A number in three digits, without trailing zeros: 0.0812, 3.4, 58.1, 649, 13,687. */
export function showNumber(value) {
  if (Math.abs(value) >= 100) return showWhole(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** A whole number with commas between thousands. */
export function showWhole(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** The unit in which a time is shown, and its size in seconds. */
export function findUnit(seconds) {
  const [size, unit] = SECONDS.find(([size]) => seconds >= size) ?? SECONDS.at(-1);
  return { size, unit };
}

/** "649 ms". */
export function showSeconds(seconds) {
  const { size, unit } = findUnit(seconds);
  return `${showNumber(seconds / size)} ${unit}`;
}

/** "649 → 581 ms": both times in the unit of `after`. */
export function showChange(before, after) {
  const { size, unit } = findUnit(after);
  return `${showNumber(before / size)} → ${showNumber(after / size)} ${unit}`;
}

/** "60%". */
export function showShare(share) {
  return `${Math.round(share * 100)}%`;
}

/** "41% faster", "12% slower", "3.1 times as long": a measured time over the predicted one. */
export function showSpeed(factor) {
  if (factor >= 2) return `${showNumber(factor)} times as long`;
  const percent = showNumber(100 * Math.abs(factor - 1));
  return `${percent}% ${factor > 1 ? "slower" : "faster"}`;
}

/** Names with their counts: "2 × H200", "H200 and L4". */
export function countNames(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${count} × ${name}` : name)).join(" and ");
}

/** "3.2 GiB", "640 B". */
export function showBytes(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${showNumber(bytes / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

const AGES = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** The age of a time in ISO 8601: "12 s ago", "3 d ago". */
export function showAge(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds < 1 ? "just now" : `${showSpan(seconds)} ago`;
}

/** How long it is until a time: "12 s", "3 min"; at least "1 s". */
export function showUntil(time) {
  return showSpan(Math.max(1, (Date.parse(time) - Date.now()) / 1000));
}

function showSpan(seconds) {
  const [size, unit] = AGES.find(([one]) => seconds >= one);
  return `${showWhole(Math.floor(seconds / size))} ${unit}`;
}

/** At most about `count` round numbers from `from` to `to`. */
export function listTicks(from, to, count) {
  const rough = (to - from) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const ticks = [];
  for (let index = Math.ceil(from / step); index * step <= to * (1 + 1e-9); index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}
