// Makes built files independent of the folder that the site lies in. VitePress writes the address of that folder (base) into
// links, scripts and styles. Here links of HTML and CSS become relative, and scripts learn the folder from the page they are on.

export const BASE = '/BASE-OF-THE-SITE/';
const FOLDER = 'globalThis.__FOLDER__';

/** `file`: its place in the site, as `api/nn.html`. */
export function madeRelative(file, text) {
  const up = '../'.repeat(file.split('/').length - 1) || './';
  if (file.endsWith('.css')) return text.replaceAll(BASE, up);
  if (file.endsWith('.js')) return inScript(text);
  // The first runs before all other scripts, which are modules. Pages that are opened as files have the second instead of them.
  const script = `<script>${FOLDER}=new URL(${JSON.stringify(up)},document.baseURI).pathname;location.protocol==="file:"&&addEventListener("DOMContentLoaded",()=>document.head.append(Object.assign(document.createElement("script"),{src:"${up}offline/offline.js"})))</script>`;
  // VitePress changes the address without loading a page: links that stay (bars, the icon) must not depend on it.
  const absolute = `<script>for (const e of document.querySelectorAll('a[href]:not([href^="#"]),link[rel=icon]')) e.href = e.href</script>`;
  return text
    .replace('</body>', `${absolute}</body>`)
    .replace('<head>', `<head>\n    ${script}`)
    .replaceAll(`="${BASE}`, `="${up}`)
    .replace(/(<a [^>]*href="(?!\w+:)[^"#]*\/)(#[^"]*)?"/g, '$1index.html$2"') // a folder without a server is a list of files
    .replaceAll(BASE.replaceAll('/', '_'), 'page_'); // a class
}

function inScript(text) {
  const made = text
    .replaceAll(`"${BASE}"`, `(${FOLDER})`) // in brackets: `return"..."` is written without a space
    .replaceAll(`\\"${BASE}\\"`, `\\""+${FOLDER}+"\\"`) // in JSON in a text: the site's configuration
    .replace(/='(\{"documentCount":.*\})'/s, `='$1'.replaceAll("${BASE}",${FOLDER})`); // the index of the search
  const left = made
    .replace(/\{"documentCount":.*\}/s, '')
    .split(`.replaceAll("${BASE}"`)
    .join('')
    .indexOf(BASE);
  if (left >= 0)
    throw new Error(
      `the site's folder stands in a script in a way that is not known here: ${made.slice(left - 80, left + 80)}`,
    );
  return made;
}
