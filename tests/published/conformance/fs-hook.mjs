// Gives the suite another `fs`.
export async function resolve(specifier, context, next) {
    if (specifier === "fs" && context.parentURL?.includes("/conformance/dist/")) {
        return { url: new URL("./fs-with-glob.mjs", import.meta.url).href, shortCircuit: true };
    }
    return next(specifier, context);
}
