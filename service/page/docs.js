/** Shows the service's OpenAPI document with Swagger UI. */

/** Makes a path plain text in the button that opens it: a control must not contain a link.
 *
 * The page's address still names what is open.
 */
const plainPaths = ({ React }) => ({
  components: { DeepLink: ({ text }) => React.createElement("span", null, text) },
});

window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  plugins: [plainPaths],
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  validatorUrl: null,
});
