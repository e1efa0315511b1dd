/* Search where the site is read from a folder: browsers start no worker there, so that it runs in a
 * frame that nobody sees. Elsewhere nothing changes. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "Search"
      frame.srcdoc = `<script src="${url}"></script>`
      this.inside = new Promise(ready => {
        frame.onload = () => {
          frame.contentWindow.postMessage = data => say(this, data)
          ready(frame.contentWindow)
        }
      })
      document.body.append(frame)
    }

    postMessage(data) {
      this.inside.then(inside => say(inside, data))
    }
  }

  function say(to, data) {
    to.dispatchEvent(new MessageEvent("message", { data }))
  }
}
