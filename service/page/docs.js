/** Shows the service's OpenAPI document with Swagger UI, products first, dark as the page is. */

const FIRST = ["matmul", "jobs", "matrices", "plan"];

const service = new URL(".", location.href).href;
document.getElementById("call").textContent =
  "cat A.npy B.npy | curl --data-binary @- \\\n" +
  `    -H 'Content-Type: application/x-npy' \\\n    -o C.npy '${service}v1/matmul'`;

const scheme = matchMedia("(prefers-color-scheme: dark)");
const showScheme = () => document.documentElement.classList.toggle("dark-mode", scheme.matches);
scheme.onchange = showScheme;
showScheme();

/** The index of a group of calls; groups that are not listed keep their order. */
const findPlace = (tag) => (FIRST.includes(tag) ? FIRST.indexOf(tag) : FIRST.length);

/** A path is plain text in the button that opens it, as a control must not contain a link. */
const plainPaths = ({ React }) => ({
  components: { DeepLink: ({ text }) => React.createElement("span", null, text) },
});

window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tagsSorter: (one, other) => findPlace(one) - findPlace(other),
  plugins: [plainPaths],
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  validatorUrl: null,
});
