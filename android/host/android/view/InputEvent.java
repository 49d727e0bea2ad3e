package android.view;

/** A stand-in. */
public abstract class InputEvent {}
