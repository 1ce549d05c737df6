/** Files that the browser keeps for the user. */

const FORGET_MS = 60_000;

/** Let the browser keep a file. */
export function saveFile(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), FORGET_MS);
}
