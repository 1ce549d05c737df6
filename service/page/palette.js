/** The colours of drawings, light and dark, and a scale for waves. */

const COLOURS = {
  light: {
    text: "#1b1e23",
    faint: "#5a616c",
    line: "#d9dce1",
    surface: "#ffffff",
    idle: "#d3d6db",
    idleLine: "#8a909b",
    gpu: "#0b6cb8",
    cpu: "#b84a00",
    total: "#111317",
    measured: "#b3267a",
    "copy in": "#3d9ad6",
    kernel: "#1f8a70",
    "copy out": "#7b52c7",
    CPU: "#d95f02",
    further: ["#7a6a00", "#a3341f", "#00798c"],
  },
  dark: {
    text: "#e8eaed",
    faint: "#a3a9b3",
    line: "#3a3f47",
    surface: "#1c1f24",
    idle: "#4a4f57",
    idleLine: "#7d838d",
    gpu: "#5fb3f0",
    cpu: "#ff9d4d",
    total: "#ffffff",
    measured: "#f08bc3",
    "copy in": "#7dc4f5",
    kernel: "#35b779",
    "copy out": "#b79af0",
    CPU: "#ff9d4d",
    further: ["#e3cf57", "#ff9c86", "#4fd0e0"],
  },
};

/** Viridis, which colour-blind people can read, too. */
const WAVES = [
  "#440154",
  "#482475",
  "#414487",
  "#355f8d",
  "#2a788e",
  "#21918c",
  "#22a884",
  "#44bf70",
  "#7ad151",
  "#bddf26",
  "#fde725",
];

/** The colours of drawings, light or dark as the page is. Queues have theirs by their names. */
export function findColours() {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  return isDark ? COLOURS.dark : COLOURS.light;
}

/** The colour of a wave among `count`. */
export function findWaveColour(wave, count) {
  const at = count > 1 ? (wave / (count - 1)) * (WAVES.length - 1) : (WAVES.length - 1) / 2;
  const below = Math.min(WAVES.length - 2, Math.floor(at));
  const share = at - below;
  const parts = [1, 3, 5].map((from) => {
    const [low, high] = [WAVES[below], WAVES[below + 1]].map((colour) =>
      parseInt(colour.slice(from, from + 2), 16),
    );
    return Math.round(low + (high - low) * share);
  });
  return `rgb(${parts.join(",")})`;
}

/** The colour of text on a wave's colour: black or white. */
export function findInk(wave, count) {
  const [red, green, blue] = findWaveColour(wave, count).match(/\d+/g).map(Number);
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#111317" : "#ffffff";
}

/** Colours of curves in one chart; their dashes differ as well. */
export function listCurveColours() {
  const { gpu, cpu, kernel, measured, "copy out": out, further, faint } = findColours();
  return [gpu, cpu, kernel, measured, out, ...further, faint];
}
