/** Whether a client is connected to the ensemble. `suspended`: disconnected, but its session may still be alive. */
export type ClientState = 'idle' | 'connecting' | 'connected' | 'suspended' | 'closed';
