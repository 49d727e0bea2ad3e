// The same elements in the same order in a tensor of another form: one invocation for each texel of the output. Its four
// elements are equally far apart in that order; where this is one step along an axis of the input, their places follow
// from the first one's.

fn each_texel(at: vec4<i32>) {
    let first = index_of(p.output, at.x, at.y, at.z, at.w * 4);
    let apart = select(1, p.output.height * p.output.width, p.output.channels_first != 0);
    let place = position_0(first);
    let is_first = p.input_0.channels_first != 0;
    let column = select(p.input_0.channels, 1, is_first);  // elements from one column to the next
    let row = column * p.input_0.width;
    let is_along_x = apart == column && place.z + 3 < p.input_0.width;
    let is_along_y = apart == row && place.y + 3 < p.input_0.height;
    var value = vec4<f32>();
    if (is_along_x || is_along_y) {
        let dx = i32(is_along_x);
        let dy = 1 - dx;
        let slice = place.w / 4;
        let c = place.w % 4;
        value.x = load_0(place.x, place.y, place.z, slice)[c];
        value.y = load_0(place.x, place.y + dy, place.z + dx, slice)[c];
        value.z = load_0(place.x, place.y + 2 * dy, place.z + 2 * dx, slice)[c];
        value.w = load_0(place.x, place.y + 3 * dy, place.z + 3 * dx, slice)[c];
    } else {
        for (var k = 0; k < min(4, p.output.channels - at.w * 4); k++) {
            value[k] = at_0(first + k * apart);
        }
    }
    store(at.x, at.y, at.z, at.w, value);
}
