/** Downloads of files that the page has. */

/** After this time the browser has the file, and its bytes may go. */
const RELEASE_MS = 60_000;

/** Download a file. */
export function saveFile(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), RELEASE_MS);
}
