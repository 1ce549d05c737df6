/** A scale of colours for waves. All other colours of drawings are variables of style.css. */

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
