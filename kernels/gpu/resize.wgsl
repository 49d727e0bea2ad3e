// Height and width changed by interpolation: one invocation for each texel of the output. weights_0 has for each of the
// output's rows, weights_1 for each of its columns: two positions in the input and their weights. LINEAR is 0 where the
// first of them alone counts.

fn each_texel(at: vec4<i32>) {
    let row = weights_0(at.y);
    let column = weights_1(at.z);
    let y = vec2<i32>(row.xy);
    let x = vec2<i32>(column.xy);
    var value = load_0(at.x, y.x, x.x, at.w);
    if (LINEAR == 1) {
        let above = value * column.z + load_0(at.x, y.x, x.y, at.w) * column.w;
        let below = load_0(at.x, y.y, x.x, at.w) * column.z + load_0(at.x, y.y, x.y, at.w) * column.w;
        value = above * row.z + below * row.w;
    }
    store(at.x, at.y, at.z, at.w, value);
}
