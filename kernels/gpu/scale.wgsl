// x * scale + shift: one invocation for each texel. weights_0 has scale and shift in turn, in the order of the texels, of
// the dimensions below or 1.

struct Own {
    batch: i32, height: i32, width: i32,
}

fn each_texel(at: vec4<i32>) {
    let b = min(at.x, p.own.batch - 1);
    let y = min(at.y, p.own.height - 1);
    let x = min(at.z, p.own.width - 1);
    let k = (((at.w * p.own.height + y) * p.own.width + x) * p.own.batch + b) * 2;
    store(at.x, at.y, at.z, at.w, finish(load_0(at.x, at.y, at.z, at.w) * weights_0(k) + weights_0(k + 1)));
}
