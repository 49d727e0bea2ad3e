// A function of each element: one invocation for each texel.

fn each_texel(at: vec4<i32>) {
    store(at.x, at.y, at.z, at.w, finish(load_0(at.x, at.y, at.z, at.w)));
}
