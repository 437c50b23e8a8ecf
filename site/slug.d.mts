/** Anchors as GitHub makes them, so that links of docs/ work there and on the site. */
export declare const slug: (heading: string) => string;
