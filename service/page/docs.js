/** Shows the service's OpenAPI document by Swagger UI. */

/** A path is plain text in the button that opens it: a link within would be a control in a control.
 * The address has what is open all the same. */
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
