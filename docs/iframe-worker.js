// Lets the search work in pages that are opened as files, from which browsers start no workers:
// it runs there in a hidden frame. mkdocs-material would load a script for this from the network.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const page = frame.contentDocument;
      page.open(); // Firefox would replace an empty page that was not opened
      page.write("<!DOCTYPE html><body></body>");
      page.close();
      this.inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      const script = page.createElement("script");
      script.src = url;
      this.started = new Promise((resolve) => (script.onload = resolve));
      page.body.append(script);
    }

    postMessage(data) {
      this.started.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })),
      );
    }
  };
}
