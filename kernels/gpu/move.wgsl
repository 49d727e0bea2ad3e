// Texels moved by an affine map of batch, height and width: slices, paddings and transposes that keep channels together,
// and channels from another first one on. One invocation for each texel of the output.
// Positions outside of the input give `value` where VALUE is 1, else the element that `bordered` names; channels outside
// of it always give `value`.

struct Own {
    batch: i32, batch_b: i32, batch_y: i32, batch_x: i32,  // the input's: of the output's 0, and for each of its b, y, x
    y: i32, y_b: i32, y_y: i32, y_x: i32,
    x: i32, x_b: i32, x_y: i32, x_x: i32,
    channel: i32,  // the input's channel of the output's channel 0; may be negative
    value: f32,
}

fn each_texel(at: vec4<i32>) {
    var b = p.own.batch + p.own.batch_b * at.x + p.own.batch_y * at.y + p.own.batch_x * at.z;
    var y = p.own.y + p.own.y_b * at.x + p.own.y_y * at.y + p.own.y_x * at.z;
    var x = p.own.x + p.own.x_b * at.x + p.own.x_y * at.y + p.own.x_x * at.z;
    let c = p.own.channel + at.w * 4;
    let inside = b >= 0 && y >= 0 && x >= 0 && b < p.input_0.batch && y < p.input_0.height && x < p.input_0.width;
    var value = vec4<f32>(p.own.value);
    if ((inside || VALUE == 0) && c > -4 && c < p.input_0.channels) {
        b = bordered(b, p.input_0.batch);
        y = bordered(y, p.input_0.height);
        x = bordered(x, p.input_0.width);
        let low = load_0(b, y, x, max(c >> 2u, 0));
        var loaded = low;
        if ((c & 3) != 0) {
            loaded = shifted(low, load_0(b, y, x, min((c >> 2u) + 1, p.input_0.slices - 1)), c & 3);
        }
        value = select(value, loaded, channels_within(c, p.input_0.channels));
    }
    store(at.x, at.y, at.z, at.w, value);
}
