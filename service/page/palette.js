/** Colours: a scale for waves that colour-blind people can read (viridis), and one for each queue. */

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

/** The colours of the drawings, light or dark as the page is. */
export function findColours() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return {
    text: dark ? "#e8eaed" : "#1b1e23",
    faint: dark ? "#a3a9b3" : "#5a616c",
    line: dark ? "#3a3f47" : "#d9dce1",
    surface: dark ? "#1c1f24" : "#ffffff",
    idle: dark ? "#4a4f57" : "#d3d6db",
    idleLine: dark ? "#7d838d" : "#8a909b",
    gpu: dark ? "#5fb3f0" : "#0b6cb8",
    cpu: dark ? "#ff9d4d" : "#b84a00",
    total: dark ? "#ffffff" : "#111317",
    measured: dark ? "#f08bc3" : "#b3267a",
    "copy in": dark ? "#7dc4f5" : "#3d9ad6",
    kernel: dark ? "#35b779" : "#1f8a70",
    "copy out": dark ? "#b79af0" : "#7b52c7",
    CPU: dark ? "#ff9d4d" : "#d95f02",
  };
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

/** Black or white, whichever is easier to read on a wave's colour. */
export function findInk(wave, count) {
  const [red, green, blue] = findWaveColour(wave, count).match(/\d+/g).map(Number);
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140 ? "#111317" : "#ffffff";
}

const CURVES = {
  light: [
    "#0b6cb8",
    "#b84a00",
    "#1f8a70",
    "#b3267a",
    "#7b52c7",
    "#7a6a00",
    "#a3341f",
    "#00798c",
    "#5a616c",
  ],
  dark: [
    "#5fb3f0",
    "#ff9d4d",
    "#35b779",
    "#f08bc3",
    "#b79af0",
    "#e3cf57",
    "#ff9c86",
    "#4fd0e0",
    "#a3a9b3",
  ],
};

/** Colours of curves that are drawn together, told apart by their dashes as well. */
export function listCurveColours() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? CURVES.dark : CURVES.light;
}
