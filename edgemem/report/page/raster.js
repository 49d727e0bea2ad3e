// Rectangles of records, set pixel by pixel in an image: a canvas takes ten times as long for 100,000 of them.

class Raster {
  constructor() {
    this.canvas = element("canvas");
  }

  // As large as what is within the axes of a plot, and empty.
  resize({ innerWidth, innerHeight, ratio }) {
    const width = Math.round(innerWidth * ratio), height = Math.round(innerHeight * ratio);
    if (this.pixels && this.canvas.width === width && this.canvas.height === height) return void this.pixels.fill(0);
    Object.assign(this.canvas, { width, height });
    this.pen = this.canvas.getContext("2d");
    this.image = this.pen.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  show({ pen, margin, innerWidth, innerHeight }) {
    this.pen.putImageData(this.image, 0, 0);
    pen.drawImage(this.canvas, margin.left, margin.top, innerWidth, innerHeight);
  }

  // Draw the part of a plot's scale. `tones`: of each record a number into `inks`, which are pixels; 0 is not drawn.
  // `wide(k, left, top, right, bottom)` is called for what has room for a name.
  //
  // A pixel shows the record that has its middle. Most records of a plan lie beside each other; of two that share bytes
  // the later one is seen. One that has no pixel's middle shows in a pixel that is still empty, or in any if it is one of
  // `found`, to which the drawing is limited where they are given.
  rectangles({ x0, x1, y0, y1, ratio }, { first, last, size }, base, tones, inks, wide, found = null) {
    const { pixels, canvas: { width, height } } = this, across = width / (x1 - x0), up = height / (y1 - y0);
    const count = found ? found.length : tones.length, gap = Math.round(ratio), least = 4 * gap, room = 50 * gap, line = 14 * gap;
    for (let n = 0; n < count; n++) {
      const k = found ? found[n] : n, begin = first[k], end = last[k] + 1, low = base[k], high = low + size[k];
      if (end <= x0 || begin >= x1 || high <= y0 || low >= y1) continue;
      const ink = inks[tones[k]];
      if (!ink) continue;
      let left = begin <= x0 ? 0 : Math.round((begin - x0) * across), right = end >= x1 ? width : Math.round((end - x0) * across);
      let top = high >= y1 ? 0 : Math.round((y1 - high) * up), bottom = low <= y0 ? height : Math.round((y1 - low) * up);
      if (left === right || top === bottom) {
        if (left === right) left = Math.min(left, width - 1), right = left + 1;
        if (top === bottom) top = Math.min(top, height - 1), bottom = top + 1;
        if (!found && pixels[((top + bottom) >> 1) * width + ((left + right) >> 1)]) continue;
      }
      if (right - left > room && bottom - top > line) wide(k, left, top, right, bottom);
      if (right - left > least && end < x1) right -= gap;
      if (bottom - top > least && low > y0) bottom -= gap;
      for (let row = top * width, stop = bottom * width; row < stop; row += width) {
        if (right - left > 16) pixels.fill(ink, row + left, row + right);
        else for (let p = row + left; p < row + right; p++) pixels[p] = ink;
      }
    }
  }

  // The area below values that hold from one time to the next, and a line above it. A column of pixels shows its largest.
  steps({ x0, x1, y0, y1, ratio }, times, values, area, line) {
    const { pixels, canvas: { width, height } } = this, across = width / (x1 - x0), most = new Float64Array(width);
    for (let k = 0; k < times.length; k++) {
      const end = k + 1 < times.length ? times[k + 1] : times[k], value = values[k];
      if (end < x0 || times[k] >= x1) continue;
      const stop = Math.min((end - x0) * across, width);
      for (let x = Math.max(0, Math.floor((times[k] - x0) * across)); x < stop; x++) if (value > most[x]) most[x] = value;
    }
    const thick = Math.round(1.5 * ratio), yOf = (value) => Math.round((1 - (value - y0) / (y1 - y0)) * height);
    for (let x = 0, before = yOf(most[0]); x < width; x++) {
      const y = yOf(most[x]), low = Math.max(y, before) + thick, top = Math.max(0, Math.min(y, before));
      for (let row = top; row < height; row++) pixels[row * width + x] = row < low ? line : area;
      before = y;
    }
  }
}

// A colour of the style as a pixel in the order of an image's bytes.
function ink(pen, css, alpha) {
  pen.fillStyle = css;  // reads back as #rrggbb
  const value = parseInt(pen.fillStyle.slice(1), 16), bytes = new Uint8Array([value >> 16, value >> 8, value, Math.round(alpha * 255)]);
  return new Uint32Array(bytes.buffer)[0];
}
