// The forms that the conformance suite wants to be shown.

const titled = (prefix, words) => words.map((title, index) => ({ const: `value${index + 1}`, title: `${title} ${prefix}` }));
const string = (description, more) => ({ type: "string", description, ...more });
const several = (description, items) => ({ type: "array", description, minItems: 1, maxItems: 3, items });
const options = ["option1", "option2", "option3"];
const words = ["First", "Second", "Third"];

export const elicitations = {
    defaults: {
        type: "object",
        properties: {
            name: string("User name", { default: "John Doe" }),
            age: { type: "integer", description: "User age", default: 30 },
            score: { type: "number", description: "User score", default: 95.5 },
            status: string("User status", { enum: ["active", "inactive", "pending"], default: "active" }),
            verified: { type: "boolean", description: "Verification status", default: true },
        },
        required: [],
    },
    enums: {
        type: "object",
        properties: {
            untitledSingle: string("Select one option", { enum: options }),
            titledSingle: string("Select one option with titles", { oneOf: titled("Option", words) }),
            legacyEnum: string("Select one option (legacy)", {
                enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"],
            }),
            untitledMulti: several("Select multiple options", { type: "string", enum: options }),
            titledMulti: several("Select multiple options with titles", { anyOf: titled("Choice", words) }),
        },
        required: [],
    },
};
