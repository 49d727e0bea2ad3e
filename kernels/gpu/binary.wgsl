// A function of two elements, `operate`, where each operand has the output's stored dimensions, or 1 instead of some:
// one invocation for each texel. `operand_0` and `operand_1` load.

// Whether an operand has the output's dimension (1) or has 1 instead of it (0).
struct Own {
    batch_0: i32, height_0: i32, width_0: i32, channels_0: i32,
    batch_1: i32, height_1: i32, width_1: i32, channels_1: i32,
}

fn each_texel(at: vec4<i32>) {
    let at_0 = at * vec4<i32>(p.own.batch_0, p.own.height_0, p.own.width_0, p.own.channels_0);
    let at_1 = at * vec4<i32>(p.own.batch_1, p.own.height_1, p.own.width_1, p.own.channels_1);
    var a = operand_0(at_0);
    var b = operand_1(at_1);
    a = select(a.xxxx, a, p.own.channels_0 == 1);
    b = select(b.xxxx, b, p.own.channels_1 == 1);
    store(at.x, at.y, at.z, at.w, finish(operate(a, b)));
}
